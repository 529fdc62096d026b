if (!exists('picture')) picture = 'arena-chat_reasoning.svg'
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
set title 'Figure 13 (b): reasoning latency'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'mean, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 4.60149
256 9.7547
512 21.0235
768 28.4116
1024 36.3491
1280 44.2186
1536 53.0716
1792 61.0573
2048 69.4608
2304 77.3538
2560 85.5846
2816 94.0386
3072 101.147
3328 110.329
3584 116.467
EOD
$curve1 << EOD
0 4.58392
256 9.72549
512 21.0034
768 28.4155
1024 36.3292
1280 44.2537
1536 53.029
1792 61.0825
2048 69.4095
2304 77.2791
2560 85.6076
2816 94.0645
3072 101.207
3328 110.34
3584 116.319
EOD
$curve2 << EOD
0 4.66072
256 9.87712
512 21.2836
768 28.7579
1024 37.0674
1280 45.1016
1536 54.5299
1792 62.9196
2048 72.2462
2304 80.5292
2560 91.7036
2816 102.242
3072 114.01
3328 125.093
3584 137.421
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
