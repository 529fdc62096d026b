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
set title 'Figures 13 (a) and 15 (a): with and without migration, alpaca-chat, 99 % of saturation'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.80458
256 22.673
512 37.4125
768 42.595
1024 48.7403
1280 52.2022
1536 57.5306
1792 63.9522
2048 71.9584
2304 81.579
2560 88.4063
2816 93.6188
3072 104.637
3840 128.992
4096 136.993
4352 148.215
EOD
$curve1 << EOD
0 18.9166
256 44.0988
512 47.8916
768 52.3421
1024 53.2825
1280 55.9745
1536 61.8762
1792 64.1271
2048 72.1348
2304 81.5819
2560 88.2847
2816 93.4686
3072 103.851
3840 127.726
4096 136.844
4352 144.603
EOD
$curve2 << EOD
0 10.7382
256 19.8199
512 30.6612
768 39.5455
1024 44.9961
1280 55.74
1536 65.0161
1792 67.6374
2048 77.7889
2304 94.705
2560 98.4543
2816 104.145
3072 119.893
3840 146.754
4096 162.852
4352 160.001
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
