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
0 8.13793
256 33.0195
512 52.0253
768 56.0929
1024 58.3119
1280 64.3469
1536 65.8297
1792 66.2149
2048 73.3028
2304 85.0429
2560 89.1816
2816 95.9651
3328 112.128
3584 121.529
3840 132.469
4864 161.765
5120 173.804
EOD
$curve1 << EOD
0 58.4449
256 75.61
512 78.9725
768 79.2101
1024 82.118
1280 83.6431
1536 85.8625
1792 70.7064
2048 74.3452
2304 92.3306
2560 92.3051
2816 95.6855
3328 112.169
3584 119.458
3840 133.796
4864 163.907
5120 169.909
EOD
$curve2 << EOD
0 10.5113
256 19.9204
512 28.5746
768 39.0752
1024 47.0367
1280 55.3016
1536 65.0713
1792 68.6205
2048 80.0827
2304 107.13
2560 107.342
2816 119.129
3328 143.283
3584 173.496
3840 180.987
4864 226.94
5120 225.463
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
