if (!exists('picture')) picture = 'alpaca-chat_tail_medium.svg'
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
set title 'Figures 9 and 10: alpaca-chat, medium load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.55017
256 20.4645
512 30.2989
768 37.3075
1024 47.5668
1280 52.8314
1536 60.975
1792 62.0301
2048 69.9763
2304 83.1038
2560 85.6202
2816 92.2257
3072 102.319
3328 108.041
4096 134.682
4352 147.267
4608 147.92
4864 154.504
EOD
$curve1 << EOD
0 7.53486
256 15.6028
512 24.4715
768 32.7614
1024 42.4316
1280 49.3261
1536 58.6377
1792 62.7393
2048 70.3564
2304 80.8811
2560 86.8517
2816 93.2884
3072 102.671
3328 109.955
4096 133.314
4352 141.653
4608 150.348
4864 156.904
EOD
$curve2 << EOD
0 7.544
256 15.5509
512 23.5776
768 31.4931
1024 39.5328
1280 47.2646
1536 55.123
1792 61.775
2048 69.8378
2304 87.9549
2560 86.0792
2816 92.4859
3072 104.529
3328 109.768
4096 143.401
4352 158.357
4608 162.705
4864 164.392
EOD
$curve3 << EOD
0 7.53541
256 15.449
512 23.5017
768 31.3886
1024 39.2268
1280 47.1756
1536 54.7306
1792 61.5212
2048 69.4188
2304 78.6667
2560 85.1951
2816 90.5222
3072 101.12
3328 107.276
4096 131.481
4352 139.316
4608 146.838
4864 154.201
EOD
$curve4 << EOD
0 7.556
256 15.5196
512 23.4855
768 31.533
1024 39.5224
1280 47.0897
1536 54.5564
1792 62.0029
2048 69.7433
2304 78.9067
2560 85.4697
2816 90.7209
3072 101.137
3328 107.919
4096 132.487
4352 139.011
4608 147.188
4864 154.674
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
