if (!exists('picture')) picture = 'arena-chat_tail_99.svg'
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
set title 'Figures 9 and 10: arena-chat, 99 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 24.6324
256 38.2168
512 50.5333
768 58.9508
1024 64.2045
1280 74.098
1536 81.8294
1792 88.474
2048 98.4987
2304 105.79
2560 96.2908
2816 108.312
3072 129.13
3328 126.815
3584 125.351
EOD
$curve1 << EOD
0 10.1104
256 17.7525
512 31.3531
768 40.759
1024 51.0875
1280 59.6262
1536 69.9071
1792 80.2376
2048 90.5598
2304 99.2499
2560 103.38
2816 113.661
3072 127.293
3328 132.505
3584 137.71
EOD
$curve2 << EOD
0 8.1006
256 16.0604
512 24.6679
768 32.8193
1024 41.0307
1280 49.5821
1536 58.4986
1792 70.098
2048 85.353
2304 99.7058
2560 99.3056
2816 115.73
3072 163.112
3328 170.197
3584 186.97
EOD
$curve3 << EOD
0 8.63161
256 31.0456
512 53.2623
768 60.7183
1024 67.4507
1280 69.7811
1536 75.34
1792 79.4022
2048 83.3964
2304 89.5234
2560 90.7479
2816 99.48
3072 121.331
3328 117.025
3584 120.629
EOD
$curve4 << EOD
0 8.07147
256 16.0093
512 24.5727
768 32.7677
1024 41.8699
1280 50.2215
1536 58.7437
1792 67.5669
2048 75.2494
2304 83.302
2560 89.6738
2816 98.0529
3072 107.592
3328 115.201
3584 118.526
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
