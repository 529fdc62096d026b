if (!exists('picture')) picture = 'alpaca-chat_reasoning.svg'
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
0 2.76582
256 11.0189
512 20.3109
768 27.9846
1024 35.453
1280 43.1894
1536 51.533
1792 59.9525
2048 67.6233
2304 77.2971
2560 82.7143
2816 89.4221
3072 97.1707
3328 107.185
3584 113.252
3840 124.139
4096 130.196
4352 138.515
4608 146.89
4864 153.942
5120 162.512
5376 169.917
EOD
$curve1 << EOD
0 2.76538
256 11.0481
512 20.3798
768 28.0952
1024 35.5324
1280 43.2975
1536 51.6426
1792 60.0766
2048 67.7544
2304 77.6544
2560 83.0256
2816 89.7555
3072 97.86
3328 107.982
3584 113.351
3840 124.088
4096 132.348
4352 139.733
4608 147.26
4864 155.196
5120 163.415
5376 172.199
EOD
$curve2 << EOD
0 2.75215
256 10.9337
512 20.1968
768 27.8533
1024 35.482
1280 43.1761
1536 51.5893
1792 60.0267
2048 68.9225
2304 79.5053
2560 85.9574
2816 93.6833
3072 106.607
3328 117.775
3584 122.735
3840 141.363
4096 138.563
4352 145.235
4608 161.665
4864 183.849
5120 177.455
5376 191.378
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
