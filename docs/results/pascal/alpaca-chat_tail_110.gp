if (!exists('picture')) picture = 'alpaca-chat_tail_110.svg'
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
set title 'Figures 9 and 10: alpaca-chat, 110 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 43.0472
256 53.1969
512 63.5703
768 71.4334
1024 78.7294
1280 86.3083
1536 95.4257
1792 91.895
2048 102.162
2304 115.669
2560 119.435
2816 122.401
3072 130.837
3840 153.022
4096 160.416
4352 174.411
EOD
$curve1 << EOD
0 16.067
256 27.9153
512 46.5218
768 57.9454
1024 73.2868
1280 84.8609
1536 99.651
1792 102.146
2048 116.985
2304 140.543
2560 145.828
2816 148.59
3072 164.53
3840 191.675
4096 205.094
4352 210.654
EOD
$curve2 << EOD
0 8.03768
256 16.3311
512 24.632
768 33.5439
1024 43.3971
1280 50.7755
1536 66.2465
1792 68.569
2048 88.8059
2304 130.693
2560 134.928
2816 153.012
3072 209.083
3840 356.791
4096 399.401
4352 411.449
EOD
$curve3 << EOD
0 43.8551
256 74.4471
512 90.0026
768 95.5088
1024 94.0794
1280 97.4065
1536 96.4858
1792 77.9649
2048 81.2108
2304 96.082
2560 100.686
2816 105.164
3072 112.655
3840 139.644
4096 152.187
4352 161.515
EOD
$curve4 << EOD
0 8.20182
256 16.927
512 25.6616
768 53.9131
1024 88.248
1280 99.3522
1536 111.269
1792 107.323
2048 119.575
2304 132.089
2560 138.376
2816 140.82
3072 147.752
3840 172.074
4096 179.557
4352 189.806
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
