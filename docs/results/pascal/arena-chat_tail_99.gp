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
0 25.8409
256 36.4581
512 49.2838
768 57.7126
1024 64.8729
1280 73.6684
1536 77.4358
1792 89.2609
2048 97.4848
2304 103.409
2560 97.0416
2816 106.996
3072 127.537
3328 124.526
3584 125.02
EOD
$curve1 << EOD
0 9.81507
256 17.8085
512 31.5275
768 40.1999
1024 51.3071
1280 60.3182
1536 70.5072
1792 80.0578
2048 91.267
2304 99.8543
2560 102.409
2816 113.833
3072 127.032
3328 133.011
3584 138.157
EOD
$curve2 << EOD
0 8.09876
256 16.0569
512 24.6752
768 32.8644
1024 41.0887
1280 49.6484
1536 58.7718
1792 69.7767
2048 87.5889
2304 96.0111
2560 100.755
2816 114.861
3072 171.121
3328 173.971
3584 182.585
EOD
$curve3 << EOD
0 8.99221
256 23.6056
512 44.9937
768 55.2664
1024 62.9092
1280 66.5168
1536 67.9151
1792 76.3366
2048 81.3064
2304 87.1221
2560 90.3267
2816 99.9779
3072 108.719
3328 114.913
3584 119.28
EOD
$curve4 << EOD
0 8.0802
256 16.0124
512 24.5901
768 32.8656
1024 41.9394
1280 49.9752
1536 59.783
1792 67.2188
2048 75.8687
2304 83.7935
2560 89.9814
2816 98.0304
3072 107.582
3328 114.801
3584 119.341
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
