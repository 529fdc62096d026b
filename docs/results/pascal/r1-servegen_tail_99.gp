if (!exists('picture')) picture = 'r1-servegen_tail_99.svg'
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
set title 'Figures 9 and 10: r1-servegen, 99 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 109.586
256 108.139
512 105.804
768 123.436
1024 134.447
1280 155.117
1536 103.674
1792 103.122
2048 133.508
2304 130.613
2560 126.635
2816 126.5
3072 121.505
3328 138.911
3584 155.595
3840 142.889
4096 199.916
4608 198.954
5376 199.96
EOD
$curve1 << EOD
0 13.0038
256 21.2177
512 33.9015
768 42.6657
1024 54.1848
1280 61.6798
1536 66.403
1792 74.6292
2048 85.4859
2304 93.4032
2560 102.279
2816 112.435
3072 119.276
3328 131.828
3584 136.886
3840 145.108
4096 153.859
4608 172.173
5376 202.523
EOD
$curve2 << EOD
0 12.0133
256 20.0454
512 28.7578
768 37.8547
1024 46.263
1280 54.4555
1536 60.9978
1792 68.883
2048 77.6357
2304 86.0273
2560 94.6254
2816 103.349
3072 110.142
3328 117.968
3584 128.91
3840 136.929
4096 149.091
4608 168.472
5376 190.088
EOD
$curve3 << EOD
0 13.1527
256 20.6431
512 29.6775
768 38.159
1024 47.6788
1280 56.2682
1536 61.686
1792 70.487
2048 78.3125
2304 86.0415
2560 96.7144
2816 106.294
3072 110.576
3328 122.014
3584 129.529
3840 144.115
4096 144.554
4608 162.461
5376 194.622
EOD
$curve4 << EOD
0 12.3735
256 19.9003
512 28.6832
768 37.9602
1024 57.0085
1280 64.105
1536 63.1768
1792 71.599
2048 84.165
2304 93.4702
2560 101.982
2816 108.05
3072 113.613
3328 128.237
3584 135.442
3840 141.939
4096 146.827
4608 166.393
5376 190.678
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
