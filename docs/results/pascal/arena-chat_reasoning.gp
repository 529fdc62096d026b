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
0 4.44726
256 9.41402
512 20.4194
768 27.6736
1024 35.3317
1280 43.1126
1536 51.6094
1792 59.5379
2048 67.7323
2304 75.208
2560 83.0767
2816 91.4754
3072 98.4309
3328 107.622
3584 113.714
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
0 4.49747
256 9.51241
512 20.6165
768 27.9615
1024 35.9767
1280 43.8457
1536 52.7463
1792 60.8881
2048 69.4943
2304 77.5557
2560 85.6868
2816 95.1846
3072 102.879
3328 113.736
3584 122.824
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
