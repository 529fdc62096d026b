if (!exists('picture')) picture = 'figure10-S-S.svg'
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
set title 'short questions (S-S)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 5.03506
10 5.04998
20 5.08645
40 5.15273
60 5.21364
EOD
$curve1 << EOD
5 5.02631
10 5.04202
20 5.06695
40 5.11262
60 5.16603
EOD
$curve2 << EOD
5 5.07621
10 5.12024
20 5.21528
40 5.52435
60 8.66269
EOD
$curve3 << EOD
5 5.01912
10 5.04025
20 5.07848
40 5.15284
60 5.23472
EOD
$curve4 << EOD
5 5.03382
10 5.04894
20 5.08372
40 5.15415
60 5.22364
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'colocated', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'Phasor'
