if (!exists('picture')) picture = 'alpaca-chat_migration.svg'
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
set title 'Figures 13 (a) and 15 (a): with and without migration, alpaca-chat, high load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.72883
256 16.3794
512 26.4199
768 35.3094
1024 42.3575
1280 48.7316
1536 56.0316
1792 63.249
2048 71.0748
2304 80.9259
2560 87.1179
2816 92.5576
3072 103.322
3328 109.871
4096 135.548
4352 142.693
4608 151.223
4864 157.189
EOD
$curve1 << EOD
0 7.71292
256 36.5962
512 45.6319
768 49.0827
1024 49.1956
1280 50.2755
1536 59.8983
1792 63.3813
2048 71.2871
2304 81.1877
2560 87.457
2816 92.75
3072 103.923
3328 110.088
4096 134.911
4352 143.167
4608 150.794
4864 157.673
EOD
$curve2 << EOD
0 9.24828
256 19.97
512 28.9127
768 37.7661
1024 46.8909
1280 55.1897
1536 65.8481
1792 65.9994
2048 78.8138
2304 96.2505
2560 95.541
2816 113.067
3072 107.158
3328 127.302
4096 168.736
4352 175.955
4608 168.268
4864 189.371
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
