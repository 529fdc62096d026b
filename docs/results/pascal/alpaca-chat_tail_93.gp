if (!exists('picture')) picture = 'alpaca-chat_tail_93.svg'
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
set title 'Figures 9 and 10: alpaca-chat, 93 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.62699
256 21.1117
512 33.8903
768 40.0896
1024 49.9149
1280 55.5896
1536 63.0167
1792 62.8343
2048 71.1806
2304 83.5879
2560 86.9424
2816 91.5112
3072 102.35
3840 124.843
4096 135.619
4352 141.258
EOD
$curve1 << EOD
0 7.59729
256 15.6188
512 25.0141
768 33.4796
1024 41.9049
1280 50.2788
1536 59.5074
1792 63.6365
2048 72.5928
2304 83.2733
2560 88.3992
2816 93.894
3072 104.378
3840 126.827
4096 137.41
4352 145.663
EOD
$curve2 << EOD
0 7.57681
256 15.5837
512 23.625
768 31.5983
1024 39.6523
1280 47.5535
1536 55.0973
1792 62.4006
2048 70.3074
2304 81.383
2560 88.4497
2816 93.6123
3072 110.295
3840 129.701
4096 146.129
4352 153.654
EOD
$curve3 << EOD
0 7.56097
256 15.5136
512 23.5623
768 31.573
1024 39.5175
1280 47.424
1536 55.0985
1792 62.0731
2048 69.9987
2304 79.1947
2560 85.8097
2816 90.8348
3072 101.296
3840 124.058
4096 133.462
4352 141.169
EOD
$curve4 << EOD
0 7.59692
256 15.5719
512 23.6032
768 31.5256
1024 39.4827
1280 47.3507
1536 54.9776
1792 62.1086
2048 70.1019
2304 79.2162
2560 85.8479
2816 91.3606
3072 101.52
3840 124.214
4096 133.094
4352 140.902
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
