if (!exists('picture')) picture = 'figure10-L-S.svg'
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
set title 'summaries (L-S)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 6.0224
10 7.86316
20 53.0207
40 78.4055
60 90.3325
EOD
$curve1 << EOD
5 5.8425
10 6.44993
20 30.9862
40 79.0146
60 95.2101
EOD
$curve2 << EOD
5 5.88587
10 6.36143
20 11.8047
40 54.0577
60 70.2478
EOD
$curve3 << EOD
5 5.8853
10 6.39332
20 11.8092
40 54.0523
60 70.2307
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'Phasor', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'Phasor, queues counted'
