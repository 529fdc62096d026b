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
0 14.2771
256 37.2046
512 45.8924
768 55.7676
1024 60.3342
1280 68.3178
1536 76.5686
1792 69.8958
2048 77.4489
2304 90.1477
2560 94.3211
2816 96.5585
3072 104.341
3840 129.848
4096 145.375
4352 146.647
EOD
$curve1 << EOD
0 7.99697
256 17.1351
512 28.9869
768 38.3415
1024 47.8903
1280 55.9926
1536 66.0977
1792 69.6939
2048 79.3514
2304 91.9255
2560 97.2377
2816 102.271
3072 112.913
3840 138.273
4096 147.095
4352 156.408
EOD
$curve2 << EOD
0 7.76153
256 15.9275
512 24.1082
768 32.2196
1024 40.5606
1280 48.3959
1536 56.918
1792 63.9377
2048 72.5389
2304 91.0488
2560 97.2609
2816 106.931
3072 120.757
3840 157.287
4096 173.804
4352 197.689
EOD
$curve3 << EOD
0 7.80458
256 22.673
512 37.4125
768 42.595
1024 48.7403
1280 52.2022
1536 57.5306
1792 63.9522
2048 71.9584
2304 81.579
2560 88.4063
2816 93.6188
3072 104.637
3840 128.992
4096 136.993
4352 148.215
EOD
$curve4 << EOD
0 7.7753
256 15.9287
512 24.044
768 32.1488
1024 40.2457
1280 48.1804
1536 55.9524
1792 63.5948
2048 71.6247
2304 80.6754
2560 87.8036
2816 93.0025
3072 103.483
3840 126.993
4096 136.237
4352 143.783
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
