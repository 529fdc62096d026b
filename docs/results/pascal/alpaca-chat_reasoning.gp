if (!exists('picture')) picture = 'alpaca-chat_reasoning.svg'
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
set title 'Figure 13 (b): reasoning latency'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'mean, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 2.75998
256 11.0947
512 20.5273
768 28.3244
1024 35.6211
1280 43.5111
1536 51.8538
1792 60.0513
2048 68.1195
2304 77.5596
2560 83.3548
2816 90.225
3072 100.664
3328 107.607
3584 116.023
3840 124.532
4096 132.531
4352 140.557
4608 148.344
4864 155.545
5120 164.543
5376 168.994
EOD
$curve1 << EOD
0 2.75663
256 11.103
512 20.551
768 28.3798
1024 35.7064
1280 43.6239
1536 51.9853
1792 60.2236
2048 68.2724
2304 77.754
2560 83.5281
2816 90.3867
3072 100.472
3328 107.969
3584 116.279
3840 124.167
4096 132.756
4352 139.939
4608 148.461
4864 155.726
5120 164.375
5376 169.552
EOD
$curve2 << EOD
0 2.77165
256 11.0976
512 20.5232
768 28.2953
1024 35.6603
1280 43.532
1536 52.0379
1792 60.4326
2048 68.9405
2304 79.0992
2560 85.0702
2816 92.2937
3072 104.18
3328 111.658
3584 120.704
3840 129.604
4096 141.171
4352 144.666
4608 156.953
4864 166.507
5120 173.358
5376 179.576
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
