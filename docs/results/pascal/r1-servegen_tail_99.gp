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
0 113.014
256 126.919
512 130.242
768 139.744
1024 150.584
1280 146.173
1536 120.454
1792 104.719
2048 121.842
2304 119.839
2560 144.271
2816 129.46
3072 135.601
3328 146.643
3584 147.433
3840 151.045
4096 160.483
4608 189.666
5376 220.419
EOD
$curve1 << EOD
0 12.9407
256 20.9513
512 32.9736
768 42.4853
1024 52.6902
1280 62.7332
1536 65.6719
1792 74.117
2048 83.6199
2304 92.505
2560 102.876
2816 109.596
3072 116.737
3328 131.693
3584 139.232
3840 144.755
4096 152.047
4608 175.309
5376 198.831
EOD
$curve2 << EOD
0 12.0151
256 20.1047
512 28.4824
768 37.5353
1024 46.2981
1280 55.0043
1536 59.7686
1792 67.913
2048 77.5867
2304 86.126
2560 94.7331
2816 103.625
3072 108.347
3328 120.098
3584 127.556
3840 135.217
4096 142.525
4608 165.3
5376 194.248
EOD
$curve3 << EOD
0 12.0269
256 20.1216
512 29.2094
768 38.2274
1024 47.4078
1280 54.9206
1536 60.0976
1792 69.7452
2048 78.6023
2304 87.1474
2560 95.6507
2816 104.045
3072 109.683
3328 119.772
3584 127.102
3840 135.006
4096 142.762
4608 162.243
5376 195.663
EOD
$curve4 << EOD
0 12.0669
256 20.0758
512 28.5141
768 37.9275
1024 54.259
1280 63.0949
1536 66.5482
1792 74.5794
2048 82.6122
2304 91.4618
2560 101.665
2816 108.945
3072 111.909
3328 125.103
3584 136.116
3840 137.69
4096 149.51
4608 164.468
5376 191.188
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
