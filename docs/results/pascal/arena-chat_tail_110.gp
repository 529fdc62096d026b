if (!exists('picture')) picture = 'arena-chat_tail_110.svg'
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
set title 'Figures 9 and 10: arena-chat, 110 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 68.6487
256 75.2893
512 86.7827
768 94.7612
1024 101.6
1280 110.051
1536 117.846
1792 127.136
2048 134.139
2304 142.997
2560 139.584
2816 148.182
3072 166.132
3328 161.724
3584 164.175
EOD
$curve1 << EOD
0 23.1455
256 31.2279
512 60.6764
768 73.8603
1024 94.4523
1280 106.645
1536 126.185
1792 141.575
2048 158.832
2304 172.356
2560 179.943
2816 195.405
3072 221.143
3328 227.358
3584 234.752
EOD
$curve2 << EOD
0 8.3077
256 16.3811
512 25.0179
768 33.2217
1024 41.5538
1280 49.9861
1536 61.0556
1792 73.9365
2048 94.5629
2304 135.082
2560 147.531
2816 362.401
3072 479.452
3328 534.686
3584 573.214
EOD
$curve3 << EOD
0 86.3268
256 106.013
512 143.052
768 145.699
1024 154.767
1280 151.083
1536 152.769
1792 156.858
2048 159.813
2304 151.853
2560 123.567
2816 127.388
3072 152.349
3328 140.161
3584 133.683
EOD
$curve4 << EOD
0 8.51932
256 16.9445
512 26.0512
768 89.2577
1024 130.578
1280 141.698
1536 151.414
1792 158.014
2048 169.875
2304 176.079
2560 172.465
2816 182.524
3072 201.171
3328 200.73
3584 198.973
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
