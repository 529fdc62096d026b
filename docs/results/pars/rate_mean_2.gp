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
0.5 17.4062
0.7 20.6414
0.8 24.4361
0.9 33.9486
0.95 44.3849
1 67.9775
1.05 115.892
1.1 185.453
1.2 343.726
1.5 721.292
EOD
$curve1 << EOD
0.5 17.4062
0.7 20.2498
0.8 22.6424
0.9 26.5007
0.95 31.1007
1 41.5247
1.05 70.0642
1.1 136.231
1.2 300.118
1.5 696.541
EOD
$curve2 << EOD
0.5 17.4062
0.7 20.2731
0.8 22.9018
0.9 26.994
0.95 31.4994
1 40.4828
1.05 70.8402
1.1 138.182
1.2 301.592
1.5 695.907
EOD
$curve3 << EOD
0.5 17.4062
0.7 20.2423
0.8 22.8368
0.9 26.793
0.95 31.1041
1 42.0522
1.05 68.5043
1.1 139.008
1.2 302.447
1.5 693.152
EOD
$curve4 << EOD
0.5 17.4062
0.7 20.3113
0.8 22.3098
0.9 26.2119
0.95 28.5917
1 34.8938
1.05 59.2673
1.1 125.898
1.2 292.572
1.5 682.771
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pointwise SJF', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'listwise SJF', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'oracle SJF'
