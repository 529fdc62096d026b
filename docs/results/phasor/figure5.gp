if (!exists('picture')) picture = 'figure5.svg'
set terminal svg size 900,480 dynamic background 'white'
set output picture
set grid lc rgb '#dddddd'
set border 3
set tics nomirror
set key top right noenhanced
set style line 1 lw 2 lc rgb '#0072b2'
set style line 2 lw 2 lc rgb '#d55e00'
set style line 3 lw 2 lc rgb '#009e73'
set style line 4 lw 2 lc rgb '#cc79a7'
set style line 5 lw 2 lc rgb '#e69f00'
set style line 6 lw 2 lc rgb '#56b4e9'
set style line 7 lw 2 lc rgb '#000000'
set style line 8 lw 2 lc rgb '#999999'
set title 'Requests in flight within the promises'
set xlabel ''
set ylabel 'relative to DistServe'
set key outside right top
set yrange [0:*]
$curve0 << EOD
1.31258
0.637635
0.758972
1.80757
1.38683
0.634648
EOD
$curve1 << EOD
1
1
1
1
1
1
EOD
$curve2 << EOD
1.98566
0.768424
1.03346
1.35962
1.64286
1.08062
EOD
$curve3 << EOD
1.98044
0.773085
1.24559
1.35647
1.62801
1.07376
EOD
$curve4 << EOD
1.00261
1.02068
0.862076
1.03155
0.996289
1.06861
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('S-S' 0, 'M-M' 1, 'S-L' 2, 'L-S' 3, 'L-L' 4, 'mix' 5)
plot $curve0 using 1  lc 1 title 'Splitwise', $curve1 using 1  lc 2 title 'DistServe', $curve2 using 1  lc 3 title 'Phasor', $curve3 using 1  lc 4 title 'Phasor, queues counted', $curve4 using 1  lc 5 title 'Phasor, 4 and 4'
