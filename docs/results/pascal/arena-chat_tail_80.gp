if (!exists('picture')) picture = 'arena-chat_tail_80.svg'
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
set title 'Figures 9 and 10: arena-chat, 80 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.51605
256 14.9628
512 23.0591
768 30.7323
1024 38.3834
1280 46.2835
1536 54.007
1792 61.3441
2048 69.406
2304 76.3636
2560 83.4793
2816 90.8663
3072 101.532
3328 106.318
3584 110.177
EOD
$curve1 << EOD
0 7.51218
256 14.9663
512 23.0523
768 30.7207
1024 38.4337
1280 46.1953
1536 53.9225
1792 61.2432
2048 69.1784
2304 76.4623
2560 83.5669
2816 90.7808
3072 99.4026
3328 106.589
3584 110.278
EOD
$curve2 << EOD
0 7.5208
256 14.9569
512 23.0615
768 30.6916
1024 38.39
1280 46.202
1536 54.1025
1792 61.3046
2048 69.3194
2304 76.1827
2560 83.4829
2816 90.7395
3072 99.4862
3328 106.334
3584 110.208
EOD
$curve3 << EOD
0 7.47738
256 14.8811
512 22.8405
768 30.4681
1024 38.0558
1280 45.8139
1536 53.5717
1792 60.762
2048 68.8106
2304 75.8867
2560 82.7151
2816 90.4906
3072 98.6395
3328 105.746
3584 109.267
EOD
$curve4 << EOD
0 7.5118
256 14.9648
512 23.0313
768 30.6758
1024 38.5431
1280 46.2156
1536 53.8708
1792 61.1669
2048 69.2048
2304 76.5734
2560 83.499
2816 90.7964
3072 99.5713
3328 106.589
3584 110.12
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
