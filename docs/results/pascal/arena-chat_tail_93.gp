if (!exists('picture')) picture = 'arena-chat_tail_93.svg'
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
set title 'Figures 9 and 10: arena-chat, 93 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 8.81136
256 19.1677
512 33.1966
768 43.4368
1024 50.5818
1280 56.1739
1536 64.3877
1792 73.2742
2048 80.8527
2304 88.8211
2560 88.6918
2816 96.169
3072 110.535
3328 112.202
3584 117.901
EOD
$curve1 << EOD
0 7.85466
256 15.6406
512 25.3822
768 34.1598
1024 43.3624
1280 50.6258
1536 60.5105
1792 68.8387
2048 77.9327
2304 85.2205
2560 90.5638
2816 98.4598
3072 110.42
3328 116.115
3584 118.988
EOD
$curve2 << EOD
0 7.82038
256 15.5765
512 24.0901
768 32.1236
1024 40.1782
1280 48.051
1536 56.4166
1792 64.1176
2048 75.1993
2304 80.9459
2560 88.2792
2816 98.0266
3072 122.13
3328 123.096
3584 123.509
EOD
$curve3 << EOD
0 7.84236
256 15.5936
512 24.019
768 32.08
1024 42.8143
1280 47.914
1536 57.8725
1792 64.2401
2048 72.5001
2304 79.8944
2560 87.1423
2816 95.2064
3072 103.433
3328 111.003
3584 115.102
EOD
$curve4 << EOD
0 7.82153
256 15.5911
512 24.0168
768 32.0148
1024 40.0142
1280 47.9281
1536 56.1602
1792 63.8158
2048 72.1355
2304 79.7564
2560 87.1366
2816 95.0321
3072 103.385
3328 111.036
3584 115.318
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
