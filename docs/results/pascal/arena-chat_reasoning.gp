if (!exists('picture')) picture = 'arena-chat_reasoning.svg'
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
set title 'Figure 13 (b): reasoning latency'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'mean, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 4.5992
256 9.75878
512 21.0344
768 28.4171
1024 36.368
1280 44.2693
1536 53.0438
1792 61.1203
2048 69.5218
2304 77.3798
2560 85.5675
2816 94.1487
3072 101.454
3328 110.796
3584 116.7
EOD
$curve1 << EOD
0 4.59127
256 9.73893
512 21.0116
768 28.4293
1024 36.3726
1280 44.2685
1536 53.0975
1792 61.1207
2048 69.4762
2304 77.3548
2560 85.6451
2816 94.092
3072 101.169
3328 110.405
3584 116.49
EOD
$curve2 << EOD
0 4.65746
256 9.86953
512 21.2967
768 28.7537
1024 37.0152
1280 45.0868
1536 54.4422
1792 62.8536
2048 72.5256
2304 80.6412
2560 90.266
2816 101.16
3072 113.143
3328 126.524
3584 134.804
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
