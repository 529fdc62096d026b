if (!exists('picture')) picture = 'alpaca-chat_migration.svg'
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
set title 'Figures 13 (a) and 15 (a): with and without migration, alpaca-chat, high load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.71436
256 15.9752
512 26.5765
768 33.0488
1024 40.3329
1280 48.1672
1536 56.0548
1792 63.0852
2048 71.1349
2304 80.6995
2560 87.1356
2816 92.5179
3072 102.868
3328 109.865
4096 134.958
4352 142.794
4608 149.984
4864 156.988
EOD
$curve1 << EOD
0 7.71292
256 36.5962
512 45.6319
768 49.0827
1024 49.1956
1280 50.2755
1536 59.8983
1792 63.3813
2048 71.2871
2304 81.1877
2560 87.457
2816 92.75
3072 103.923
3328 110.088
4096 134.911
4352 143.167
4608 150.794
4864 157.673
EOD
$curve2 << EOD
0 9.7439
256 18.2502
512 28.9513
768 35.5064
1024 44.4538
1280 54.3539
1536 60.2632
1792 64.3656
2048 78.5534
2304 94.0543
2560 98.3206
2816 105.59
3072 112.733
3328 119.501
4096 164.204
4352 150.651
4608 177.952
4864 182.212
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
