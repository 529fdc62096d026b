if (!exists('picture')) picture = 'arena-chat_reasoning.svg'
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
0 4.51527
256 9.56757
512 20.6623
768 27.997
1024 35.7734
1280 43.7382
1536 52.5209
1792 60.1755
2048 68.5895
2304 76.2132
2560 85.002
2816 92.6752
3072 99.8066
3328 108.597
3584 115.787
EOD
$curve1 << EOD
0 4.50855
256 9.55375
512 20.6823
768 28.0374
1024 35.857
1280 43.7839
1536 52.6236
1792 60.4051
2048 68.7923
2304 76.3002
2560 85.3217
2816 93.1473
3072 100.267
3328 109.002
3584 116.166
EOD
$curve2 << EOD
0 4.52002
256 9.58828
512 20.7569
768 28.1012
1024 36.1029
1280 44.1202
1536 53.3768
1792 61.1907
2048 70.6766
2304 78.6992
2560 90.4855
2816 97.452
3072 109.814
3328 120.775
3584 130.225
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
