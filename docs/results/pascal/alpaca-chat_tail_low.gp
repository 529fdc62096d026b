if (!exists('picture')) picture = 'alpaca-chat_tail_low.svg'
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
set title 'Figures 9 and 10: alpaca-chat, low load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.28997
256 14.9536
512 22.8094
768 30.6836
1024 38.2632
1280 45.6007
1536 53.3018
1792 59.8065
2048 67.2969
2304 76.4478
2560 82.7452
2816 88.0097
3072 97.3409
3328 103.95
4096 127.817
4352 134.359
4608 142.567
4864 149.243
EOD
$curve1 << EOD
0 7.28917
256 14.9448
512 22.7616
768 30.5905
1024 38.2982
1280 45.7258
1536 53.1859
1792 59.6613
2048 67.5192
2304 76.4358
2560 82.595
2816 87.9979
3072 97.8881
3328 104.164
4096 127.951
4352 134.219
4608 142.62
4864 149.429
EOD
$curve2 << EOD
0 7.27784
256 14.9651
512 22.6997
768 30.445
1024 38.0962
1280 45.6136
1536 52.9452
1792 59.7951
2048 67.2572
2304 76.3907
2560 82.4216
2816 87.8367
3072 97.8649
3328 103.994
4096 131.118
4352 138.13
4608 143.016
4864 153.887
EOD
$curve3 << EOD
0 7.22817
256 14.8395
512 22.4658
768 30.1508
1024 37.746
1280 45.1742
1536 52.7185
1792 59.3373
2048 66.8294
2304 75.7108
2560 82.0062
2816 87.246
3072 96.9331
3328 103.291
4096 126.479
4352 133.433
4608 141.136
4864 149.208
EOD
$curve4 << EOD
0 7.28147
256 14.9755
512 22.7057
768 30.469
1024 38.1295
1280 45.6232
1536 52.9087
1792 59.7553
2048 67.2528
2304 76.2356
2560 82.4748
2816 87.9519
3072 97.7668
3328 104.191
4096 127.969
4352 134.365
4608 142.243
4864 149.345
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
