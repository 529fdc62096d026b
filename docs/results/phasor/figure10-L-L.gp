if (!exists('picture')) picture = 'figure10-L-L.svg'
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
set title 'translation (L-L)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 23.9639
10 29.2147
20 79.8669
40 123.299
60 145.957
EOD
$curve1 << EOD
5 23.1777
10 26.7307
20 51.0106
40 95.9629
60 111.531
EOD
$curve2 << EOD
5 24.1718
10 28.9905
20 50.0088
40 91.9154
60 107.149
EOD
$curve3 << EOD
5 23.0395
10 26.921
20 44.3019
40 70.3603
60 83.9361
EOD
$curve4 << EOD
5 24.2748
10 27.9471
20 84.5835
40 84.8954
60 99.202
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'colocated', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'Phasor'
