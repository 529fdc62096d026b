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
0 68.5426
256 76.0223
512 87.5231
768 93.8639
1024 102.13
1280 109.945
1536 118.977
1792 125.701
2048 134.345
2304 142.496
2560 135.215
2816 146.77
3072 166.063
3328 162.174
3584 160.642
EOD
$curve1 << EOD
0 23.4896
256 31.2344
512 60.2863
768 74.349
1024 94.4229
1280 109.12
1536 125.734
1792 142.109
2048 160.743
2304 176.823
2560 177.981
2816 194.165
3072 227.756
3328 225.62
3584 236.957
EOD
$curve2 << EOD
0 8.30853
256 16.3724
512 25.0465
768 33.2495
1024 41.5933
1280 49.8731
1536 59.2936
1792 75.551
2048 93.5122
2304 126.629
2560 149.23
2816 360.202
3072 468.933
3328 516.019
3584 569.912
EOD
$curve3 << EOD
0 85.7106
256 116.379
512 137.683
768 142.721
1024 144.127
1280 145.483
1536 151.167
1792 146.379
2048 151.063
2304 152.69
2560 124.251
2816 123.436
3072 151.459
3328 135.069
3584 138.257
EOD
$curve4 << EOD
0 8.52741
256 16.9488
512 25.9922
768 91.7145
1024 130.322
1280 141.383
1536 152.656
1792 159.91
2048 169.401
2304 179.107
2560 173.301
2816 182.284
3072 203.612
3328 201.314
3584 197.033
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
