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
$curve1 << EOD
0 44.4883
256 60.5501
512 65.1743
768 68.7528
1024 69.8176
1280 71.4068
1536 73.9704
1792 78.1625
2048 83.3674
2304 88.301
2560 89.8448
2816 98.0993
3072 109.663
3328 114.533
3584 118.683
EOD
$curve2 << EOD
0 11.4437
256 17.8186
512 30.0713
768 38.3175
1024 48.7163
1280 58.4266
1536 72.5823
1792 84.4906
2048 99.1177
2304 110.172
2560 114.776
2816 134.464
3072 189.181
3328 169.711
3584 190.791
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
