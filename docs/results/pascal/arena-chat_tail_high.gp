if (!exists('picture')) picture = 'arena-chat_tail_high.svg'
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
set title 'Figures 9 and 10: arena-chat, high load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 33.0969
256 42.7505
512 54.6773
768 62.453
1024 68.9211
1280 81.6242
1536 83.1797
1792 92.0059
2048 100.634
2304 108.599
2560 106.704
2816 107.277
3072 131.762
3328 128.273
3584 127.738
EOD
$curve1 << EOD
0 12.2333
256 19.4787
512 36.3498
768 45.2528
1024 60.0331
1280 69.9301
1536 80.3818
1792 90.4179
2048 99.0619
2304 105.781
2560 110.107
2816 121.275
3072 137.097
3328 139.128
3584 145.087
EOD
$curve2 << EOD
0 8.13353
256 16.1589
512 24.731
768 32.9825
1024 41.1723
1280 50.1014
1536 59.8795
1792 72.5489
2048 87.8066
2304 99.9657
2560 99.7228
2816 119.262
3072 177.484
3328 176.575
3584 228.146
EOD
$curve3 << EOD
0 9.96962
256 29.0332
512 59.4366
768 64.6107
1024 72.6525
1280 72.1937
1536 76.3937
1792 75.4423
2048 80.1529
2304 84.4139
2560 90.2417
2816 98.5027
3072 108.534
3328 115.173
3584 120.709
EOD
$curve4 << EOD
0 8.08084
256 16.1878
512 24.7846
768 33.6759
1024 50.3496
1280 59.137
1536 66.8274
1792 76.7589
2048 83.2991
2304 89.2835
2560 93.9828
2816 102.112
3072 114.806
3328 116.996
3584 120.994
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
