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
0 8.03867
256 16.0432
512 26.7992
768 34.3378
1024 42.4207
1280 49.2665
1536 57.3603
1792 64.9901
2048 73.4871
2304 81.3762
2560 88.6263
2816 96.792
3072 104.909
3328 113.173
3584 117.465
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
0 11.2064
256 17.9128
512 28.8822
768 37.53
1024 48.3235
1280 57.3258
1536 66.4239
1792 79.5249
2048 88.7334
2304 94.6025
2560 96.6455
2816 107.546
3072 141.721
3328 137.872
3584 138.038
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
