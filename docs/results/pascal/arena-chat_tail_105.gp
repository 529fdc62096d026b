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
0 47.0615
256 53.6282
512 66.0037
768 73.6927
1024 82.5465
1280 88.1511
1536 95.278
1792 104.782
2048 112.66
2304 121.92
2560 122.04
2816 126.641
3072 145.372
3328 145.255
3584 144.039
EOD
$curve1 << EOD
0 17.7183
256 25.3672
512 45.7553
768 57.933
1024 72.2842
1280 82.2862
1536 99.3489
1792 111.407
2048 126.274
2304 137.481
2560 142.726
2816 156.929
3072 179.513
3328 179.017
3584 187.093
EOD
$curve2 << EOD
0 8.27547
256 16.3486
512 24.9737
768 33.1751
1024 41.4409
1280 49.895
1536 60.8633
1792 72.7328
2048 93.039
2304 111.115
2560 121.386
2816 185.852
3072 282.343
3328 383.334
3584 429.31
EOD
$curve3 << EOD
0 37.9176
256 99.4778
512 116.223
768 119.885
1024 122.606
1280 119.496
1536 120.851
1792 128.557
2048 124.348
2304 125.447
2560 113.909
2816 118.87
3072 144.076
3328 132.649
3584 134.618
EOD
$curve4 << EOD
0 8.38996
256 16.6224
512 25.6849
768 53.0756
1024 87.5148
1280 98.893
1536 108.102
1792 119.052
2048 127.528
2304 134.616
2560 132.126
2816 142.107
3072 159.501
3328 162.257
3584 158.415
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
