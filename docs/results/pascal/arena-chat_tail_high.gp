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
0 19.8873
256 33.7655
512 48.1615
768 51.3709
1024 58.1235
1280 68.4401
1536 75.4575
1792 84.006
2048 91.3422
2304 98.7318
2560 94.5433
2816 98.6353
3072 123.061
3328 115.793
3584 120.289
EOD
$curve1 << EOD
0 8.48106
256 16.4924
512 28.4561
768 37.4792
1024 47.3325
1280 55.8345
1536 65.3532
1792 74.1508
2048 83.1787
2304 91.0134
2560 95.223
2816 103.459
3072 115.863
3328 120.041
3584 125.043
EOD
$curve2 << EOD
0 7.98475
256 15.9086
512 24.48
768 32.5784
1024 40.7288
1280 48.9106
1536 57.2421
1792 65.3895
2048 79.2023
2304 90.3599
2560 92.2787
2816 105.055
3072 137.547
3328 141.38
3584 148.103
EOD
$curve3 << EOD
0 8.02277
256 16.0598
512 26.3461
768 33.3792
1024 42.0677
1280 49.1738
1536 57.1206
1792 65.0593
2048 73.4091
2304 81.3866
2560 88.7207
2816 96.6149
3072 105.039
3328 113.249
3584 116.917
EOD
$curve4 << EOD
0 7.96894
256 15.8756
512 24.4068
768 32.5185
1024 40.6388
1280 48.7183
1536 56.9832
1792 64.7664
2048 73.3105
2304 80.8398
2560 88.5468
2816 96.5719
3072 104.947
3328 112.599
3584 116.743
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
