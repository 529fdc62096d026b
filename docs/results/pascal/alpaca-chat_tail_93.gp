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
0 7.62569
256 21.1293
512 34.0275
768 40.2078
1024 49.9301
1280 55.4293
1536 62.9072
1792 62.9241
2048 71.1766
2304 83.5991
2560 87.1748
2816 91.6792
3072 102.305
3840 124.414
4096 135.554
4352 141.17
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
2560 88.3986
2816 93.894
3072 104.378
3840 126.827
4096 137.41
4352 145.663
EOD
$curve2 << EOD
0 7.57664
256 15.5912
512 23.6373
768 31.5853
1024 39.6593
1280 47.5653
1536 55.1319
1792 62.4075
2048 70.3073
2304 81.4335
2560 87.7194
2816 93.7436
3072 110.362
3840 132.928
4096 143.81
4352 149.612
EOD
$curve3 << EOD
0 7.56045
256 15.518
512 23.5862
768 31.6167
1024 39.5495
1280 47.4397
1536 55.0477
1792 62.2127
2048 69.939
2304 79.2777
2560 85.6648
2816 91.1126
3072 101.017
3840 124
4096 132.66
4352 140.443
EOD
$curve4 << EOD
0 7.59388
256 15.5676
512 23.604
768 31.5425
1024 39.4935
1280 47.3504
1536 54.9983
1792 62.1672
2048 70.0932
2304 79.1859
2560 85.8525
2816 91.3907
3072 101.417
3840 124.095
4096 133.173
4352 140.863
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
