if (!exists('picture')) picture = 'rate_mean_2.svg'
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
set title 'mean latency per token, R1''s spread'
set xlabel 'load'
set ylabel 'ms per token'
set key outside right top
set logscale y
$curve0 << EOD
0.8 27.6488
0.95 58.4739
1 86.4814
1.1 186.828
EOD
$curve1 << EOD
0.8 27.7015
0.95 58.43
1 86.4558
1.1 186.446
EOD
$curve2 << EOD
0.8 22.3717
0.95 26.151
1 27.7609
1.1 31.9936
EOD
$curve3 << EOD
0.8 22.4374
0.95 26.5953
1 28.1128
1.1 33.9445
EOD
$curve4 << EOD
0.8 24.0223
0.95 38.7849
1 54.782
1.1 130.588
EOD
$curve5 << EOD
0.8 22.4148
0.95 26.1671
1 27.7334
1.1 31.9874
EOD
$curve6 << EOD
0.8 23.3862
0.95 32.1363
1 38.2788
1.1 60.6403
EOD
$curve7 << EOD
0.8 23.3768
0.95 32.1165
1 38.2792
1.1 60.7056
EOD
$curve8 << EOD
0.8 22.3383
0.95 25.3763
1 26.2274
1.1 27.4309
EOD
$curve9 << EOD
0.8 22.3157
0.95 25.241
1 26.0352
1.1 26.987
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'FCFS, steps bounded (`sarathi`)', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pointwise SJF, never boosted', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'listwise SJF, never boosted', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'PARS, boosted after 120 s', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'PARS, never boosted', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'PARS, smooth ageing', $curve7 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 8 title 'PARS, smooth ageing, steps bounded', $curve8 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 9 title '`due-first`', $curve9 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 10 title 'oracle SJF, never boosted'
