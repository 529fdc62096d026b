if (!exists('picture')) picture = 'arena-chat_tail_low.svg'
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
set title 'Figures 9 and 10: arena-chat, low load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.47573
256 14.9253
512 23.0025
768 30.6626
1024 38.3413
1280 46.0641
1536 53.9991
1792 61.1469
2048 69.0141
2304 75.9504
2560 83.3432
2816 91.0824
3072 99.0957
3328 106.514
3584 110.379
EOD
$curve1 << EOD
0 7.47107
256 14.929
512 22.9783
768 30.6842
1024 38.3492
1280 46.0458
1536 53.925
1792 61.244
2048 69.0796
2304 76.0861
2560 83.3765
2816 91.13
3072 99.0918
3328 106.614
3584 110.227
EOD
$curve2 << EOD
0 7.46413
256 14.9134
512 22.9829
768 30.6421
1024 38.3213
1280 46.0219
1536 53.9148
1792 61.1349
2048 69.0534
2304 76.0726
2560 83.3374
2816 90.9844
3072 99.0319
3328 106.484
3584 110.297
EOD
$curve3 << EOD
0 7.44965
256 14.8168
512 22.8401
768 30.5019
1024 38.0352
1280 45.6601
1536 53.3868
1792 60.7968
2048 68.6171
2304 75.6871
2560 82.8439
2816 90.3982
3072 98.231
3328 105.697
3584 109.595
EOD
$curve4 << EOD
0 7.46562
256 14.9274
512 22.9647
768 30.6641
1024 38.3228
1280 46.0081
1536 53.9315
1792 61.1002
2048 69.0126
2304 75.9912
2560 83.3417
2816 91.1903
3072 99.2262
3328 106.547
3584 110.402
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
