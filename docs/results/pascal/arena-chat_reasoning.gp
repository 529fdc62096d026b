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
0 4.45203
256 9.42185
512 20.4214
768 27.6728
1024 35.3338
1280 43.1316
1536 51.6598
1792 59.582
2048 67.7577
2304 75.2293
2560 83.1183
2816 91.5388
3072 98.4954
3328 107.594
3584 113.684
EOD
$curve1 << EOD
0 4.45794
256 9.43993
512 20.4886
768 27.7677
1024 35.4813
1280 43.322
1536 51.8856
1792 59.8185
2048 68.1107
2304 75.6087
2560 83.8155
2816 91.9845
3072 99.077
3328 108.19
3584 114.09
EOD
$curve2 << EOD
0 4.49959
256 9.51187
512 20.663
768 27.9596
1024 36.0023
1280 43.8064
1536 52.7929
1792 60.7071
2048 69.328
2304 76.9615
2560 84.9607
2816 93.8936
3072 102.519
3328 112.837
3584 119.935
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
