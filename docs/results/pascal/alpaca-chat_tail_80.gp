if (!exists('picture')) picture = 'alpaca-chat_tail_80.svg'
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
set title 'Figures 9 and 10: alpaca-chat, 80 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.29708
256 14.9666
512 22.6992
768 30.5259
1024 38.273
1280 45.8955
1536 53.0719
1792 59.8272
2048 67.4118
2304 76.283
2560 82.5517
2816 87.658
3072 97.9339
3328 105.001
3840 119.589
4096 128.172
4352 135.707
4608 143.464
EOD
$curve1 << EOD
0 7.29786
256 14.9919
512 22.7125
768 30.5242
1024 38.294
1280 45.936
1536 53.172
1792 59.9652
2048 67.548
2304 76.3498
2560 82.6662
2816 87.7102
3072 97.9329
3328 104.241
3840 120.011
4096 128.772
4352 136.859
4608 143.642
EOD
$curve2 << EOD
0 7.30569
256 14.9733
512 22.7004
768 30.5
1024 38.2627
1280 45.8178
1536 53.0764
1792 59.6961
2048 67.4536
2304 76.462
2560 82.5225
2816 87.8057
3072 97.9127
3328 104.556
3840 119.799
4096 128.013
4352 134.692
4608 143.436
EOD
$curve3 << EOD
0 7.2538
256 14.8728
512 22.5571
768 30.1797
1024 37.7226
1280 45.4481
1536 52.7136
1792 59.062
2048 66.7507
2304 75.4494
2560 82.0007
2816 87.5053
3072 97.65
3328 104.294
3840 119.266
4096 126.615
4352 134.332
4608 142.135
EOD
$curve4 << EOD
0 7.30274
256 14.9693
512 22.7141
768 30.5456
1024 38.2753
1280 45.7923
1536 53.1473
1792 59.7083
2048 67.4381
2304 76.2918
2560 82.6137
2816 87.703
3072 97.8303
3328 104.428
3840 119.596
4096 128.02
4352 135.283
4608 143.43
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
