if (!exists('picture')) picture = 'arena-chat_tail_93.svg'
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
set title 'Figures 9 and 10: arena-chat, 93 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 9.28882
256 19.079
512 33.2833
768 43.4965
1024 51.0808
1280 56.2798
1536 64.2767
1792 73.0061
2048 80.8761
2304 88.7932
2560 88.6853
2816 96.0199
3072 110.406
3328 112.031
3584 117.21
EOD
$curve1 << EOD
0 7.8456
256 15.6265
512 25.4387
768 34.1995
1024 43.2753
1280 50.739
1536 60.5132
1792 68.8342
2048 77.9745
2304 85.4809
2560 90.5076
2816 98.613
3072 110.375
3328 115.987
3584 119.085
EOD
$curve2 << EOD
0 7.82278
256 15.5651
512 24.1016
768 32.1117
1024 40.2131
1280 48.0884
1536 56.3782
1792 64.0661
2048 75.5807
2304 82.2619
2560 89.127
2816 97.3143
3072 123.442
3328 122.98
3584 126.404
EOD
$curve3 << EOD
0 7.84545
256 15.5875
512 24.132
768 32.1631
1024 40.2967
1280 48.0027
1536 56.3
1792 63.8759
2048 72.3521
2304 79.7195
2560 87.1099
2816 95.1073
3072 103.564
3328 110.993
3584 115.352
EOD
$curve4 << EOD
0 7.82942
256 15.5732
512 23.97
768 32.0118
1024 40.0045
1280 47.9336
1536 56.1911
1792 63.818
2048 72.1575
2304 79.8434
2560 87.1233
2816 95.0661
3072 103.47
3328 111.023
3584 115.314
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
