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
0.7 23.6919
0.8 25.9886
0.9 29.8021
0.95 39.9271
1 68.2758
1.05 156.848
1.1 365.388
1.2 801.764
1.5 1728.76
EOD
$curve2 << EOD
0.5 20.0606
0.7 23.7015
0.8 26.0183
0.9 30.105
0.95 41.3944
1 69.7151
1.05 161.017
1.1 364.055
1.2 801.006
1.5 1724.91
EOD
$curve3 << EOD
0.5 20.0606
0.7 23.6936
0.8 25.9848
0.9 30.0404
0.95 41.1068
1 67.7442
1.05 154.899
1.1 370.065
1.2 800.168
1.5 1727.14
EOD
$curve4 << EOD
0.5 20.0606
0.7 23.6655
0.8 25.9231
0.9 28.0582
0.95 30.9882
1 46.6046
1.05 116.825
1.1 356.25
1.2 798.749
1.5 1724.67
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pointwise SJF', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'listwise SJF', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'oracle SJF'
