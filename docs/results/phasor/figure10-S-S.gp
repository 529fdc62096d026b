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
5 5.00177
10 5.01815
20 5.05299
40 5.11885
60 5.182
EOD
$curve1 << EOD
5 4.99796
10 5.01209
20 5.03725
40 5.07959
60 5.12905
EOD
$curve2 << EOD
5 5.00606
10 5.01548
20 5.05364
40 5.11441
60 5.18827
EOD
$curve3 << EOD
5 5.00392
10 5.01616
20 5.05239
40 5.11272
60 5.18581
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'Phasor', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'Phasor, queues counted'
