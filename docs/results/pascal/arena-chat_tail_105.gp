if (!exists('picture')) picture = 'arena-chat_tail_105.svg'
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
set title 'Figures 9 and 10: arena-chat, 105 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 47.1872
256 54.648
512 66.7107
768 74.6665
1024 81.3709
1280 88.8087
1536 97.1161
1792 106.097
2048 114.356
2304 124.012
2560 115.432
2816 125.501
3072 147.428
3328 145.081
3584 145.127
EOD
$curve1 << EOD
0 18.0051
256 25.1991
512 45.8219
768 57.493
1024 72.8614
1280 83.571
1536 98.1824
1792 112.565
2048 125.274
2304 137
2560 143.047
2816 156.643
3072 177.966
3328 181.115
3584 188.294
EOD
$curve2 << EOD
0 8.27041
256 16.3217
512 24.956
768 33.1905
1024 41.4415
1280 49.7084
1536 60.0293
1792 73.8041
2048 92.1142
2304 109.807
2560 120.099
2816 187.729
3072 280.816
3328 378.8
3584 428.79
EOD
$curve3 << EOD
0 47.2664
256 93.7321
512 121.983
768 128.044
1024 128.58
1280 133.063
1536 133.213
1792 131.757
2048 132.664
2304 133.384
2560 116.306
2816 124.102
3072 141.838
3328 134.393
3584 129.541
EOD
$curve4 << EOD
0 8.40948
256 16.6423
512 25.6544
768 53.4119
1024 89.9219
1280 102.003
1536 113.424
1792 120.106
2048 130.453
2304 135.919
2560 133.022
2816 141.332
3072 160.595
3328 157.437
3584 159.711
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
