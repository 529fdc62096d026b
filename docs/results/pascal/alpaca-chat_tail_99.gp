if (!exists('picture')) picture = 'alpaca-chat_tail_99.svg'
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
set title 'Figures 9 and 10: alpaca-chat, 99 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 14.5615
256 37.0823
512 46.9638
768 55.9141
1024 60.6305
1280 69.5126
1536 77.7231
1792 70.8004
2048 76.83
2304 90.0276
2560 94.4138
2816 97.6233
3072 105.208
3840 129.738
4096 145.03
4352 147.575
EOD
$curve1 << EOD
0 7.95083
256 17.1992
512 29.3452
768 38.549
1024 48.0508
1280 56.1733
1536 66.1296
1792 70.4508
2048 79.3318
2304 91.9513
2560 97.2188
2816 102.138
3072 112.586
3840 137.249
4096 147.834
4352 156.694
EOD
$curve2 << EOD
0 7.75853
256 15.9173
512 24.0963
768 32.1888
1024 40.5402
1280 48.4124
1536 57.202
1792 63.8754
2048 73.4
2304 90.0158
2560 96.7987
2816 104.842
3072 123.358
3840 154.408
4096 173.18
4352 192.759
EOD
$curve3 << EOD
0 7.7816
256 22.623
512 39.4796
768 43.5817
1024 49.7283
1280 53.1941
1536 57.9042
1792 64.0538
2048 71.8878
2304 83.7488
2560 90.3972
2816 93.8957
3072 104.457
3840 128.752
4096 137.816
4352 147.454
EOD
$curve4 << EOD
0 7.77842
256 15.9138
512 24.0435
768 32.1289
1024 40.2789
1280 48.1769
1536 55.9552
1792 63.5404
2048 71.5899
2304 80.6676
2560 87.7964
2816 92.8919
3072 103.605
3840 126.996
4096 136.152
4352 143.9
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
