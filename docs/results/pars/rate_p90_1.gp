if (!exists('picture')) picture = 'rate_p90_1.svg'
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
set title 'P90 latency per token, GPT-4''s lengths'
set xlabel 'load'
set ylabel 'ms per token'
set key outside right top
set logscale y
$curve0 << EOD
0.5 13.6605
0.7 14.4654
0.8 15.4003
0.9 17.6381
0.95 21.0604
1 36.2981
1.05 171.658
1.1 336.79
1.2 628.934
1.5 1275.82
EOD
$curve1 << EOD
0.5 13.6605
0.7 14.4654
0.8 15.4003
0.9 17.6381
0.95 21.0604
1 34.415
1.05 40.7409
1.1 59.2998
1.2 497.644
1.5 1013.33
EOD
$curve2 << EOD
0.5 13.6605
0.7 14.4654
0.8 15.4003
0.9 17.6381
0.95 21.0604
1 34.4316
1.05 40.4984
1.1 57.5491
1.2 492.407
1.5 1013.85
EOD
$curve3 << EOD
0.5 13.6605
0.7 14.4654
0.8 15.4003
0.9 17.6381
0.95 21.0604
1 34.4347
1.05 40.7045
1.1 57.4295
1.2 490.415
1.5 1007.84
EOD
$curve4 << EOD
0.5 13.6605
0.7 14.4654
0.8 15.4003
0.9 17.6381
0.95 21.0604
1 34.3509
1.05 39.2515
1.1 45.4783
1.2 276.762
1.5 793.402
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pointwise SJF', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'listwise SJF', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'oracle SJF'
