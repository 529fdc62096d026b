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
0 2.7171
256 10.8685
512 20.0456
768 27.6205
1024 34.7986
1280 42.4698
1536 50.714
1792 58.5268
2048 66.245
2304 75.8648
2560 81.2017
2816 88.1466
3072 97.7064
3328 105.106
3584 113.468
3840 120.485
4096 128.484
4352 135.812
4608 144.565
4864 151.503
5120 158.439
5376 164.116
EOD
$curve1 << EOD
0 2.71289
256 10.8823
512 20.112
768 27.739
1024 34.9597
1280 42.6802
1536 50.9547
1792 58.8556
2048 66.5478
2304 76.2871
2560 81.7608
2816 88.5467
3072 98.1241
3328 105.506
3584 113.967
3840 121.722
4096 129.285
4352 136.774
4608 145.158
4864 151.769
5120 159.639
5376 166.43
EOD
$curve2 << EOD
0 2.71598
256 10.8433
512 20.075
768 27.6328
1024 34.9675
1280 42.5293
1536 51.054
1792 58.6721
2048 67.4373
2304 77.0106
2560 82.5832
2816 90.7592
3072 98.9459
3328 109.723
3584 121.685
3840 126.005
4096 134.666
4352 142.623
4608 150.66
4864 160.587
5120 166.362
5376 177.216
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
