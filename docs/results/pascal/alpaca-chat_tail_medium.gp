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
0 9.85615
256 29.722
512 42.126
768 50.3394
1024 53.0754
1280 66.7369
1536 68.7662
1792 65.5296
2048 73.1856
2304 88.9822
2560 89.5237
2816 93.4662
3328 109.291
3584 117.136
3840 128.775
4864 157.736
5120 164.937
EOD
$curve1 << EOD
0 7.70897
256 16.155
512 27.229
768 35.6301
1024 45.0794
1280 53.4431
1536 62.5314
1792 66.8949
2048 75.39
2304 86.7177
2560 91.1114
2816 96.6696
3328 113.103
3584 121.493
3840 130.08
4864 165.438
5120 172.537
EOD
$curve2 << EOD
0 7.64078
256 15.7416
512 23.8952
768 31.9493
1024 40.0011
1280 48.0228
1536 55.7322
1792 62.9892
2048 71.0709
2304 85.7671
2560 88.5734
2816 94.6204
3328 121.597
3584 125.566
3840 139.406
4864 180.488
5120 201.077
EOD
$curve3 << EOD
0 7.64573
256 15.7064
512 24.2771
768 33.1782
1024 40.0327
1280 47.9947
1536 55.665
1792 63.2855
2048 71.0767
2304 80.0765
2560 86.3312
2816 91.5195
3328 109.503
3584 117.412
3840 125.859
4864 157.861
5120 164.899
EOD
$curve4 << EOD
0 7.65464
256 15.7231
512 23.8778
768 31.8291
1024 39.9059
1280 47.9557
1536 55.474
1792 63.0881
2048 71.1289
2304 80.0633
2560 86.4433
2816 91.2264
3328 109.365
3584 117.141
3840 125.41
4864 157.947
5120 164.812
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
