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
0 43.6241
256 55.0393
512 63.9657
768 71.759
1024 79.1186
1280 87.6839
1536 97.2613
1792 92.6472
2048 104.356
2304 116.546
2560 120.569
2816 120.894
3072 131.954
3840 150.43
4096 158.26
4352 173.072
EOD
$curve1 << EOD
0 15.6567
256 27.7587
512 46.2604
768 58.8614
1024 75.0841
1280 84.9474
1536 100.988
1792 103.118
2048 117.14
2304 138.446
2560 142.95
2816 148.609
3072 161.346
3840 201.945
4096 216.187
4352 223.062
EOD
$curve2 << EOD
0 8.03632
256 16.3411
512 24.5835
768 32.9297
1024 42.0266
1280 51.2141
1536 64.4362
1792 69.213
2048 88.5649
2304 130.306
2560 134.852
2816 140.667
3072 219.9
3840 360.753
4096 394.245
4352 409.47
EOD
$curve3 << EOD
0 41.6091
256 78.7182
512 94.4171
768 100.885
1024 100.369
1280 101.382
1536 104.167
1792 83.8684
2048 86.6558
2304 100.614
2560 101.997
2816 103.494
3072 117.447
3840 140.117
4096 149.862
4352 163.042
EOD
$curve4 << EOD
0 8.20006
256 16.9143
512 25.6037
768 53.8912
1024 89.8723
1280 102.43
1536 114.159
1792 108.627
2048 115.839
2304 133.114
2560 137.15
2816 141.107
3072 148.608
3840 174.86
4096 179.635
4352 186.7
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
