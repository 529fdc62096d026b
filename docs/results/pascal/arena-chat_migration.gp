if (!exists('picture')) picture = 'arena-chat_migration.svg'
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
set title 'Figures 13 (a) and 15 (a): with and without migration, arena-chat, high load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 9.96962
256 29.0332
512 59.4366
768 64.6107
1024 72.6525
1280 72.1937
1536 76.3937
1792 75.4423
2048 80.1529
2304 84.4139
2560 90.2417
2816 98.5027
3072 108.534
3328 115.173
3584 120.709
EOD
$curve1 << EOD
0 73.965
256 81.0689
512 81.2078
768 83.4141
1024 85.4343
1280 86.4193
1536 82.5316
1792 88.5246
2048 96.5912
2304 94.2723
2560 92.6914
2816 100.439
3072 110.802
3328 114.848
3584 119.703
EOD
$curve2 << EOD
0 11.3066
256 17.8786
512 28.9415
768 38.2214
1024 46.2772
1280 55.871
1536 70.0142
1792 83.5234
2048 94.7392
2304 110.409
2560 118.326
2816 122.299
3072 186.008
3328 166.444
3584 180.603
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
