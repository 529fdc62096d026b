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
0 28.6219
256 44.1555
512 52.4623
768 61.3566
1024 69.3963
1280 77.0836
1536 78.9344
1792 76.0147
2048 81.7431
2304 103.101
2560 96.36
2816 101.246
3328 119.311
3584 119.894
3840 131.869
4864 162.021
5120 172.131
EOD
$curve1 << EOD
0 9.66087
256 19.3258
512 33.3766
768 42.595
1024 53.7418
1280 63.094
1536 70.6211
1792 74.6384
2048 85.1332
2304 100.277
2560 102.784
2816 108.519
3328 124.678
3584 132.093
3840 150.384
4864 182.975
5120 188.972
EOD
$curve2 << EOD
0 7.82178
256 16.0419
512 24.2598
768 32.4251
1024 40.5704
1280 49.2158
1536 58.895
1792 64.468
2048 76.2474
2304 110.799
2560 108.763
2816 102.01
3328 140.209
3584 142.398
3840 180.441
4864 238.257
5120 252.354
EOD
$curve3 << EOD
0 8.13793
256 33.0195
512 52.0253
768 56.0929
1024 58.3119
1280 64.3469
1536 65.8297
1792 66.2149
2048 73.3028
2304 85.0429
2560 89.1816
2816 95.9651
3328 112.128
3584 121.529
3840 132.469
4864 161.765
5120 173.804
EOD
$curve4 << EOD
0 7.86664
256 16.0944
512 24.3331
768 32.4536
1024 43.0076
1280 51.5374
1536 59.9245
1792 65.0434
2048 72.8812
2304 85.1521
2560 89.6371
2816 94.7605
3328 111.306
3584 119.187
3840 129.486
4864 161.007
5120 168.645
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
