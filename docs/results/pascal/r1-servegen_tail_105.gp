if (!exists('picture')) picture = 'r1-servegen_tail_105.svg'
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
set title 'Figures 9 and 10: r1-servegen, 105 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 141.654
256 150.871
512 160.912
768 160.165
1024 171.996
1280 180.381
1536 114.543
1792 143.029
2048 153.509
2304 136.261
2560 168.516
2816 152.696
3072 158.878
3328 191.412
3584 178.172
3840 175.556
4096 194.549
4608 193.284
5376 225.682
EOD
$curve1 << EOD
0 14.7014
256 23.087
512 37.6265
768 45.3811
1024 59.8537
1280 67.5741
1536 71.0348
1792 82.5085
2048 92.8391
2304 102.165
2560 113.382
2816 122.96
3072 127.769
3328 139.902
3584 151.486
3840 156.366
4096 167.447
4608 190.535
5376 213.676
EOD
$curve2 << EOD
0 11.9641
256 20.5009
512 29.4336
768 38.9278
1024 48.2374
1280 57.9027
1536 62.1355
1792 70.2477
2048 79.6523
2304 88.2879
2560 96.1542
2816 106.735
3072 112.237
3328 121.342
3584 131.753
3840 140
4096 152.769
4608 168.763
5376 200.139
EOD
$curve3 << EOD
0 12.9352
256 20.9214
512 29.4898
768 39.0277
1024 49.329
1280 58.4295
1536 62.2949
1792 70.9235
2048 80.7883
2304 90.0087
2560 96.4623
2816 107.028
3072 114.544
3328 124.528
3584 130.727
3840 136.044
4096 146.119
4608 168.451
5376 192.833
EOD
$curve4 << EOD
0 12.4262
256 20.8782
512 29.9863
768 38.5334
1024 78.7234
1280 91.3073
1536 79.6096
1792 84.0266
2048 107.715
2304 108.339
2560 118.725
2816 127.291
3072 128.089
3328 139.059
3584 147.192
3840 146.416
4096 166.066
4608 181.741
5376 194.067
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
