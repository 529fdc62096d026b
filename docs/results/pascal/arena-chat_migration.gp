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
set title 'Figures 13 (a) and 15 (a): with and without migration, arena-chat, 99 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 8.63161
256 31.0456
512 53.2623
768 60.7183
1024 67.4507
1280 69.7811
1536 75.34
1792 79.4022
2048 83.3964
2304 89.5234
2560 90.7479
2816 99.48
3072 121.331
3328 117.025
3584 120.629
EOD
$curve1 << EOD
0 54.1104
256 65.1946
512 72.0372
768 76.0473
1024 80.9405
1280 84.0441
1536 87.0487
1792 89.6109
2048 89.2445
2304 92.7548
2560 90.3937
2816 98.2422
3072 109.82
3328 115.07
3584 119.878
EOD
$curve2 << EOD
0 11.6832
256 18.0523
512 31.4924
768 39.278
1024 47.8394
1280 58.579
1536 88.098
1792 85.198
2048 102.391
2304 113.142
2560 113.493
2816 128.093
3072 183.813
3328 177.147
3584 177.102
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
