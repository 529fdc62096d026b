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
0 8.02277
256 16.0598
512 26.3461
768 33.3792
1024 42.0677
1280 49.1738
1536 57.1206
1792 65.0593
2048 73.4091
2304 81.3866
2560 88.7207
2816 96.6149
3072 105.039
3328 113.249
3584 116.917
EOD
$curve1 << EOD
0 18.7993
256 43.471
512 42.8618
768 47.0967
1024 49.8633
1280 52.833
1536 58.6158
1792 65.2987
2048 73.7568
2304 81.2722
2560 89.216
2816 97.2503
3072 105.158
3328 113.359
3584 117.415
EOD
$curve2 << EOD
0 10.6951
256 17.5561
512 32.5533
768 37.8125
1024 47.8827
1280 57.1989
1536 69.164
1792 79.8867
2048 93.3726
2304 114.351
2560 100.461
2816 115.84
3072 147.413
3328 136.632
3584 151.016
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
