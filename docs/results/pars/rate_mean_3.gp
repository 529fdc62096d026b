if (!exists('picture')) picture = 'rate_mean_3.svg'
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
set title 'mean latency per token, r1-servegen'
set xlabel 'load'
set ylabel 'ms per token'
set key outside right top
set logscale y
$curve0 << EOD
0.8 38.841
0.95 140.225
1 215.855
1.1 401.016
EOD
$curve1 << EOD
0.8 35.9461
0.95 121.306
1 188.542
1.1 363.376
EOD
$curve2 << EOD
0.8 28.0318
0.95 108.732
1 178.954
1.1 357.183
EOD
$curve3 << EOD
0.8 26.1568
0.95 33.8043
1 35.9583
1.1 39.574
EOD
$curve4 << EOD
0.8 27.45
0.95 47.0559
1 66.2676
1.1 138.829
EOD
$curve5 << EOD
0.8 26.2676
0.95 41.677
1 57.6104
1.1 119.783
EOD
$curve6 << EOD
0.8 25.452
0.95 33.0525
1 35.9959
1.1 54.8431
EOD
$curve7 << EOD
0.8 26.0191
0.95 32.0194
1 33.2573
1.1 36.9162
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'FCFS, steps bounded (`sarathi`)', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'PARS, boosted after 120 s', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS, never boosted', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'PARS, smooth ageing', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'PARS, smooth ageing, steps bounded', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title '`due-first`', $curve7 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 8 title 'oracle SJF, never boosted'
