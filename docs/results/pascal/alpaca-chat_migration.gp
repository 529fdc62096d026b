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
0 7.7816
256 22.623
512 39.4796
768 43.5817
1024 49.7283
1280 53.1941
1536 57.9042
1792 64.0538
2048 71.8878
2304 83.7488
2560 90.3972
2816 93.8957
3072 104.457
3840 128.752
4096 137.816
4352 147.454
EOD
$curve1 << EOD
0 16.6579
256 41.2449
512 46.0062
768 47.5314
1024 50.7903
1280 55.2043
1536 60.8503
1792 64.1204
2048 72.2549
2304 81.6156
2560 88.3859
2816 93.4704
3072 104.395
3840 127.863
4096 137.598
4352 145.971
EOD
$curve2 << EOD
0 9.90942
256 19.1049
512 30.6078
768 38.6456
1024 46.3876
1280 57.0374
1536 69.6157
1792 70.9842
2048 84.1717
2304 98.6588
2560 103.383
2816 109.074
3072 129.484
3840 145.27
4096 179.707
4352 171.038
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
