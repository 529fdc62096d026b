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
0 2.75585
256 11.0871
512 20.5295
768 28.3322
1024 35.6422
1280 43.5259
1536 51.8532
1792 60.0395
2048 68.0136
2304 77.608
2560 83.3537
2816 90.5139
3072 100.394
3328 108.008
3584 116.811
3840 124.365
4096 132.592
4352 140.303
4608 148.521
4864 155.413
5120 164.157
5376 169.009
EOD
$curve1 << EOD
0 2.75301
256 11.092
512 20.5465
768 28.3788
1024 35.7095
1280 43.6258
1536 52.0008
1792 60.2102
2048 68.2782
2304 77.7731
2560 83.4979
2816 90.3462
3072 100.541
3328 107.941
3584 116.337
3840 124.24
4096 132.857
4352 140.942
4608 148.662
4864 155.5
5120 164.202
5376 169.033
EOD
$curve2 << EOD
0 2.77576
256 11.1191
512 20.5608
768 28.3721
1024 35.8751
1280 43.8459
1536 52.4713
1792 61.0422
2048 69.9236
2304 79.7489
2560 86.2748
2816 94.278
3072 108.616
3328 113.648
3584 122.828
3840 129.336
4096 144.574
4352 147.665
4608 156.259
4864 166.711
5120 176.676
5376 175.146
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
