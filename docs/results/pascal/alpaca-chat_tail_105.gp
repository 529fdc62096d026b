if (!exists('picture')) picture = 'alpaca-chat_tail_105.svg'
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
set title 'Figures 9 and 10: alpaca-chat, 105 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 32.9252
256 47.6644
512 57.2662
768 66.0956
1024 72.7062
1280 79.203
1536 88.0959
1792 81.477
2048 92.5434
2304 103.858
2560 108.897
2816 111.225
3072 118.868
3840 146.682
4096 151.475
4352 164.314
EOD
$curve1 << EOD
0 11.7355
256 22.0995
512 38.0065
768 48.094
1024 59.6354
1280 70.7374
1536 82.2724
1792 85.6146
2048 99.14
2304 114.553
2560 119.648
2816 122.968
3072 140.774
3840 166.725
4096 182.424
4352 190.216
EOD
$curve2 << EOD
0 7.95474
256 16.2302
512 24.449
768 32.7456
1024 42.3231
1280 50.382
1536 61.0698
1792 66.1951
2048 77.551
2304 109.257
2560 116.964
2816 116.937
3072 142.108
3840 257.194
4096 297.333
4352 346.363
EOD
$curve3 << EOD
0 16.8443
256 47.3475
512 70.6892
768 72.8861
1024 75.3416
1280 80.1745
1536 80.4295
1792 69.1762
2048 77.9945
2304 89.9313
2560 94.6473
2816 102.448
3072 111.944
3840 139.932
4096 153.864
4352 161.672
EOD
$curve4 << EOD
0 8.03012
256 16.4029
512 24.7931
768 34.39
1024 53.4008
1280 62.9159
1536 75.3101
1792 74.1477
2048 83.6829
2304 97.7913
2560 103.862
2816 106.047
3072 113.932
3840 143.822
4096 147.245
4352 156.186
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
