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
0.5 13.4719
0.7 14.0329
0.8 14.6473
0.9 16.0118
0.95 17.8417
1 28.5033
1.05 109.674
1.1 203.272
1.2 369.268
1.5 736.904
EOD
$curve1 << EOD
0.5 13.4719
0.7 14.0329
0.8 14.6473
0.9 16.0118
0.95 17.8417
1 27.8318
1.05 54.9653
1.1 84.6882
1.2 141.111
1.5 283.181
EOD
$curve2 << EOD
0.5 13.4719
0.7 14.0329
0.8 14.6473
0.9 16.0118
0.95 17.8417
1 27.8283
1.05 54.5719
1.1 84.0972
1.2 139.512
1.5 280.712
EOD
$curve3 << EOD
0.5 13.4719
0.7 14.0329
0.8 14.6473
0.9 16.0118
0.95 17.8417
1 27.8282
1.05 54.1817
1.1 83.717
1.2 139.331
1.5 278.696
EOD
$curve4 << EOD
0.5 13.4719
0.7 14.0329
0.8 14.6473
0.9 16.0118
0.95 17.8417
1 27.6951
1.05 43.4991
1.1 59.7953
1.2 96.5998
1.5 201.278
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pointwise SJF', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'listwise SJF', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'oracle SJF'
