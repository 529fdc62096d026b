if (!exists('picture')) picture = 'alpaca-chat_tail_high.svg'
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
set title 'Figures 9 and 10: alpaca-chat, high load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 10.0766
256 31.1831
512 41.9171
768 51.0349
1024 59.3127
1280 65.376
1536 71.7983
1792 66.9478
2048 79.0523
2304 86.7898
2560 90.5751
2816 95.0356
3072 103.782
3328 110.786
4096 136.648
4352 141.642
4608 151.903
4864 159.391
EOD
$curve1 << EOD
0 7.74348
256 16.6292
512 28.1879
768 36.43
1024 47.2673
1280 54.8603
1536 64.6294
1792 68.4378
2048 76.8525
2304 89.331
2560 94.3023
2816 99.7661
3072 111.101
3328 113.877
4096 141.204
4352 152.638
4608 157.114
4864 165.261
EOD
$curve2 << EOD
0 7.70093
256 15.8932
512 23.9954
768 32.113
1024 40.2421
1280 48.0694
1536 56.1917
1792 63.0451
2048 73.7294
2304 91.2083
2560 92.1661
2816 100.958
3072 113.92
3328 116.942
4096 163.233
4352 174.25
4608 180.726
4864 186.451
EOD
$curve3 << EOD
0 7.72883
256 16.3794
512 26.4199
768 35.3094
1024 42.3575
1280 48.7316
1536 56.0316
1792 63.249
2048 71.0748
2304 80.9259
2560 87.1179
2816 92.5576
3072 103.322
3328 109.871
4096 135.548
4352 142.693
4608 151.223
4864 157.189
EOD
$curve4 << EOD
0 7.71989
256 15.891
512 23.9215
768 32.0014
1024 40.0487
1280 47.8572
1536 55.6396
1792 63.0018
2048 70.9619
2304 80.4803
2560 87.2492
2816 92.1087
3072 103.061
3328 109.813
4096 134.292
4352 142.121
4608 150.253
4864 157.013
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
