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
set ylabel 'relative to DistServe 4/4'
set key outside right top
set yrange [0:*]
$curve0 << EOD
1.11063
0.738486
0.744706
1.88509
1.48655
0.651952
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
1.18459
1
1.73446
3.77019
3.19139
4.60781
EOD
$curve3 << EOD
0.860162
0.289729
0.93666
1.34472
1.50192
1.07131
EOD
$curve4 << EOD
0.998135
0.928627
1.24475
3.75776
3.19139
3.04584
EOD
$curve5 << EOD
0.525047
0.0601093
0.354124
2.18012
1.31514
0.565365
EOD
$curve6 << EOD
1.26227
1.50184
1.81917
3.68323
3.92544
10.2071
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('S-S' 0, 'M-M' 1, 'S-L' 2, 'L-S' 3, 'L-L' 4, 'mix' 5)
plot $curve0 using 1  lc 1 title 'Splitwise', $curve1 using 1  lc 2 title 'DistServe', $curve2 using 1  lc 3 title 'its best', $curve3 using 1  lc 4 title 'Phasor', $curve4 using 1  lc 5 title 'its best pools', $curve5 using 1  lc 6 title 'colocated', $curve6 using 1  lc 7 title 'due-first'
