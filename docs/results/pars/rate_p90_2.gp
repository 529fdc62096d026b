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
0.5 20.0606
0.7 23.703
0.8 26.4287
0.9 49.3786
0.95 85.6373
1 155.123
1.05 279.584
1.1 456.814
1.2 834.33
1.5 1738.26
EOD
$curve1 << EOD
0.5 20.0606
0.7 23.7044
0.8 25.9924
0.9 31.0019
0.95 43.0641
1 75.3297
1.05 165.411
1.1 370.535
1.2 802.281
1.5 1732.15
EOD
$curve2 << EOD
0.5 20.0606
0.7 23.7068
0.8 26.1191
0.9 31.5228
0.95 43.5889
1 72.8126
1.05 164.741
1.1 373.357
1.2 808.377
1.5 1737.07
EOD
$curve3 << EOD
0.5 20.0606
0.7 23.7105
0.8 26.0283
0.9 31.8995
0.95 43.8626
1 77.2633
1.05 158.589
1.1 376.94
1.2 807.733
1.5 1731.34
EOD
$curve4 << EOD
0.5 20.0606
0.7 23.6875
0.8 25.9904
0.9 29.8544
0.95 35.4678
1 56.0921
1.05 129.195
1.1 358.761
1.2 799.423
1.5 1731.55
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pointwise SJF', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'listwise SJF', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'oracle SJF'
