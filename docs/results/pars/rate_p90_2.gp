if (!exists('picture')) picture = 'rate_p90_2.svg'
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
set title 'P90 latency per token, R1''s spread'
set xlabel 'load'
set ylabel 'ms per token'
set key outside right top
set logscale y
$curve0 << EOD
0.8 38.3995
0.95 122.303
1 198.92
1.1 447.594
EOD
$curve1 << EOD
0.8 38.3268
0.95 122.086
1 198.524
1.1 446.636
EOD
$curve2 << EOD
0.8 26.402
0.95 27.9514
1 28.3716
1.1 29.3161
EOD
$curve3 << EOD
0.8 26.4511
0.95 28.1139
1 28.4016
1.1 29.6588
EOD
$curve4 << EOD
0.8 29.5255
0.95 63.0246
1 109.412
1.1 335.096
EOD
$curve5 << EOD
0.8 26.374
0.95 27.9548
1 28.318
1.1 29.3036
EOD
$curve6 << EOD
0.8 27.2938
0.95 45.9029
1 62.089
1.1 134.692
EOD
$curve7 << EOD
0.8 27.2858
0.95 45.8216
1 62.2176
1.1 135.47
EOD
$curve8 << EOD
0.8 26.1769
0.95 27.5334
1 27.6903
1.1 27.912
EOD
$curve9 << EOD
0.8 26.195
0.95 27.5054
1 27.6978
1.1 27.9107
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'FCFS, steps bounded (`sarathi`)', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pointwise SJF, never boosted', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'listwise SJF, never boosted', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'PARS, boosted after 120 s', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'PARS, never boosted', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'PARS, smooth ageing', $curve7 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 8 title 'PARS, smooth ageing, steps bounded', $curve8 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 9 title '`due-first`', $curve9 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 10 title 'oracle SJF, never boosted'
