if (!exists('picture')) picture = 'arena-chat_tail_medium.svg'
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
set title 'Figures 9 and 10: arena-chat, medium load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 10.844
256 24.8443
512 39.3077
768 51.3011
1024 56.3546
1280 63.3428
1536 71.8717
1792 79.3159
2048 88.9082
2304 85.4131
2560 87.9992
2816 98.0127
3072 115.187
3328 113.047
3584 121.039
EOD
$curve1 << EOD
0 8.00836
256 15.9536
512 26.9869
768 36.2168
1024 45.2541
1280 53.9594
1536 63.8608
1792 73.0724
2048 82.231
2304 88.9163
2560 92.3139
2816 100.34
3072 112.3
3328 115.916
3584 122.521
EOD
$curve2 << EOD
0 7.83602
256 15.7147
512 24.1911
768 32.2563
1024 40.2976
1280 48.4927
1536 56.5284
1792 64.5431
2048 76.4486
2304 83.747
2560 89.6075
2816 97.2734
3072 127.765
3328 124.71
3584 136.937
EOD
$curve3 << EOD
0 7.86835
256 15.6838
512 24.1949
768 32.2972
1024 40.2798
1280 48.4045
1536 56.5122
1792 64.3493
2048 72.6022
2304 80.1868
2560 87.6721
2816 95.2739
3072 103.221
3328 111.26
3584 115.782
EOD
$curve4 << EOD
0 7.83619
256 15.6873
512 24.0335
768 32.1604
1024 40.1266
1280 48.2914
1536 56.5046
1792 64.3435
2048 72.5537
2304 79.9576
2560 87.7321
2816 95.3247
3072 103.241
3328 111.07
3584 115.883
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
