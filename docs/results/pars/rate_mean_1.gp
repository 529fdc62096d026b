if (!exists('picture')) picture = 'rate_mean_1.svg'
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
set title 'mean latency per token, GPT-4''s lengths'
set xlabel 'load'
set ylabel 'ms per token'
set key outside right top
set logscale y
$curve0 << EOD
0.8 14.6418
0.95 17.8177
1 29.5073
1.1 205.124
EOD
$curve1 << EOD
0.8 14.6412
0.95 17.8177
1 29.5134
1.1 205.124
EOD
$curve2 << EOD
0.8 14.6418
0.95 17.8177
1 28.2399
1.1 87.9158
EOD
$curve3 << EOD
0.8 14.6418
0.95 17.8177
1 28.2264
1.1 86.9806
EOD
$curve4 << EOD
0.8 14.6418
0.95 17.8177
1 28.2134
1.1 89.4429
EOD
$curve5 << EOD
0.8 14.6418
0.95 17.8177
1 28.2134
1.1 86.5588
EOD
$curve6 << EOD
0.8 14.6418
0.95 17.8177
1 28.2196
1.1 92.5544
EOD
$curve7 << EOD
0.8 14.6412
0.95 17.8177
1 28.2221
1.1 92.5477
EOD
$curve8 << EOD
0.8 14.6412
0.95 17.8177
1 28.2544
1.1 90.6865
EOD
$curve9 << EOD
0.8 14.6418
0.95 17.8177
1 27.9983
1.1 60.3648
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'FCFS, steps bounded (`sarathi`)', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pointwise SJF, never boosted', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'listwise SJF, never boosted', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'PARS, boosted after 120 s', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'PARS, never boosted', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'PARS, smooth ageing', $curve7 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 8 title 'PARS, smooth ageing, steps bounded', $curve8 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 9 title '`due-first`', $curve9 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 10 title 'oracle SJF, never boosted'
