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
0 7.85726
256 16.236
512 32.9282
768 37.5082
1024 46.6434
1280 52.9856
1536 58.5626
1792 71.706
2048 76.2303
2304 83.7324
2560 87.7043
2816 95.4303
3072 111.758
3328 111.256
3584 115.133
EOD
$curve1 << EOD
0 7.77355
256 15.5382
512 24.6058
768 33.0634
1024 41.5863
1280 49.2065
1536 58.956
1792 66.353
2048 74.3272
2304 82.8468
2560 88.2284
2816 95.9817
3072 106.675
3328 112.261
3584 116.397
EOD
$curve2 << EOD
0 7.80006
256 15.5526
512 23.9075
768 31.8991
1024 39.9657
1280 48.0617
1536 56.042
1792 63.8689
2048 72.4987
2304 81.9889
2560 87.2446
2816 96.6831
3072 113.947
3328 115.209
3584 124.68
EOD
$curve3 << EOD
0 7.76886
256 15.4842
512 23.8242
768 31.8451
1024 39.7551
1280 47.741
1536 55.9403
1792 63.2936
2048 71.5062
2304 79.1016
2560 86.5025
2816 94.1889
3072 102.578
3328 110.304
3584 114.112
EOD
$curve4 << EOD
0 7.78655
256 15.5215
512 23.9064
768 31.9158
1024 39.7794
1280 47.7056
1536 56.0544
1792 63.4734
2048 71.7475
2304 79.1829
2560 86.6905
2816 94.4394
3072 102.712
3328 110.086
3584 114.699
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
