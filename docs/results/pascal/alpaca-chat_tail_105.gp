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
0 32.9666
256 46.43
512 57.4033
768 65.1242
1024 71.9361
1280 78.0657
1536 89.0417
1792 80.9692
2048 91.3351
2304 104.351
2560 108.727
2816 110.278
3072 119.965
3840 145.46
4096 153.13
4352 160.507
EOD
$curve1 << EOD
0 11.7623
256 22.2464
512 37.215
768 47.606
1024 60.2139
1280 70.2911
1536 81.6314
1792 85.326
2048 96.8898
2304 112.373
2560 119.138
2816 124.708
3072 134.913
3840 165.635
4096 180.293
4352 192.421
EOD
$curve2 << EOD
0 7.96096
256 16.238
512 24.4363
768 32.7097
1024 42.6826
1280 51.3402
1536 65.0778
1792 68.7994
2048 81.55
2304 109.467
2560 123.64
2816 128.37
3072 146.491
3840 248.098
4096 307.673
4352 340.114
EOD
$curve3 << EOD
0 8.69857
256 51.1728
512 66.5944
768 72.638
1024 75.7658
1280 73.4928
1536 76.0915
1792 74.3381
2048 77.6591
2304 89.1528
2560 95.1467
2816 99.6851
3072 110.22
3840 136.554
4096 147.659
4352 153.232
EOD
$curve4 << EOD
0 8.01997
256 16.3886
512 24.7922
768 35.8643
1024 53.169
1280 64.55
1536 75.099
1792 75.8932
2048 84.5365
2304 95.6829
2560 104.882
2816 106.831
3072 115.427
3840 140.371
4096 150.215
4352 157.669
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
