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
0 7.51821
256 15.0553
512 23.0496
768 30.9734
1024 38.6037
1280 46.3396
1536 54.1734
1792 61.7189
2048 70.0301
2304 76.6906
2560 84.1019
2816 91.4468
3072 99.2612
3328 106.834
3584 111.24
EOD
$curve1 << EOD
0 7.51137
256 15.0618
512 23.035
768 30.9088
1024 38.4406
1280 46.4151
1536 54.0701
1792 61.6468
2048 69.6723
2304 76.7826
2560 84.1434
2816 91.4436
3072 99.3314
3328 107.123
3584 111.306
EOD
$curve2 << EOD
0 7.52296
256 15.054
512 23.0374
768 30.8766
1024 38.4205
1280 46.3412
1536 54.1601
1792 61.5666
2048 69.5102
2304 76.6045
2560 84.0992
2816 91.4881
3072 99.3637
3328 106.85
3584 111.368
EOD
$curve3 << EOD
0 7.48443
256 14.9652
512 22.9336
768 30.7323
1024 38.3804
1280 46.1487
1536 53.9495
1792 61.4594
2048 69.2765
2304 76.1652
2560 83.6216
2816 91.2684
3072 98.6969
3328 106.206
3584 110.554
EOD
$curve4 << EOD
0 7.52031
256 15.0568
512 23.0389
768 30.8971
1024 38.4399
1280 46.391
1536 54.0395
1792 61.4378
2048 69.5662
2304 76.6623
2560 84.0716
2816 91.4292
3072 99.3338
3328 106.822
3584 111.272
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
