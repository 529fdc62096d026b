if (!exists('picture')) picture = 'r1-servegen_tail_105.svg'
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
set title 'Figures 9 and 10: r1-servegen, 105 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 148.784
256 155.105
512 165.654
768 178.473
1024 185.46
1280 180.474
1536 128.737
1792 130.021
2048 147.945
2304 150.006
2560 180.219
2816 165.216
3072 147.339
3328 169.802
3584 194.582
3840 162.247
4096 187.006
4608 201.116
5376 234.781
EOD
$curve1 << EOD
0 14.1831
256 22.7336
512 37.2724
768 45.4031
1024 58.7818
1280 67.294
1536 71.057
1792 80.0813
2048 90.7954
2304 102.191
2560 111.286
2816 117.579
3072 126.927
3328 141.085
3584 149.98
3840 150.939
4096 164.05
4608 188.391
5376 214.562
EOD
$curve2 << EOD
0 12.0976
256 20.3215
512 29.6077
768 38.1554
1024 46.3588
1280 55.9708
1536 61.2567
1792 70.4232
2048 78.9797
2304 88.5108
2560 95.9151
2816 104.665
3072 112.588
3328 122.013
3584 128.88
3840 137.681
4096 144.992
4608 181.824
5376 188.447
EOD
$curve3 << EOD
0 12.5425
256 20.6282
512 29.326
768 39.8103
1024 47.9856
1280 57.5996
1536 62.3459
1792 70.7731
2048 78.8007
2304 88.1382
2560 97.6621
2816 106.971
3072 112.149
3328 119.839
3584 134.737
3840 138.379
4096 145.316
4608 176.536
5376 198.158
EOD
$curve4 << EOD
0 12.1705
256 20.6368
512 29.2998
768 38.3332
1024 62.7842
1280 75.9908
1536 74.4411
1792 82.0625
2048 93.6639
2304 98.3955
2560 115.136
2816 119.246
3072 119.672
3328 139.366
3584 141.953
3840 145.672
4096 167.818
4608 170.682
5376 195.379
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
