if (!exists('picture')) picture = 'rate_p90_3.svg'
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
set title 'P90 latency per token, r1-servegen'
set xlabel 'load'
set ylabel 'ms per token'
set key outside right top
set logscale y
$curve0 << EOD
0.8 63.4021
0.95 315.727
1 492.983
1.1 925.532
EOD
$curve1 << EOD
0.8 55.3706
0.95 273.495
1 429.875
1.1 837.714
EOD
$curve2 << EOD
0.8 35.262
0.95 240.739
1 421.809
1.1 862.07
EOD
$curve3 << EOD
0.8 31.8301
0.95 44.242
1 49.398
1.1 57.6554
EOD
$curve4 << EOD
0.8 34.1496
0.95 86.0865
1 140.512
1.1 335.089
EOD
$curve5 << EOD
0.8 32.3386
0.95 70.5093
1 117.512
1.1 285.819
EOD
$curve6 << EOD
0.8 30.6906
0.95 43.6847
1 53.5062
1.1 106.103
EOD
$curve7 << EOD
0.8 31.8707
0.95 42.2147
1 45.1446
1.1 53.5636
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'FCFS, steps bounded (`sarathi`)', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'PARS, boosted after 120 s', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS, never boosted', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'PARS, smooth ageing', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'PARS, smooth ageing, steps bounded', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title '`due-first`', $curve7 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 8 title 'oracle SJF, never boosted'
