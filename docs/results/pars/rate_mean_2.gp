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
0.7 20.2074
0.8 22.4524
0.9 25.9732
0.95 30.0883
1 39.2801
1.05 67.745
1.1 134.06
1.2 298.829
1.5 691.596
EOD
$curve2 << EOD
0.5 17.4062
0.7 20.2307
0.8 22.5082
0.9 26.2
0.95 30.4987
1 39.7768
1.05 68.0835
1.1 133.076
1.2 300.138
1.5 691.102
EOD
$curve3 << EOD
0.5 17.4062
0.7 20.2263
0.8 22.447
0.9 26.1339
0.95 30.3747
1 39.3741
1.05 67.5809
1.1 137.015
1.2 299.017
1.5 691.353
EOD
$curve4 << EOD
0.5 17.4062
0.7 20.1532
0.8 21.9151
0.9 24.3291
0.95 26.3709
1 32.5228
1.05 55.7148
1.1 123.714
1.2 290.265
1.5 682.664
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pointwise SJF', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'listwise SJF', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'PARS', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'oracle SJF'
