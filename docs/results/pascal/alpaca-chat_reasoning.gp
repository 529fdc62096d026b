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
0 2.71243
256 10.8536
512 20.0336
768 27.6038
1024 34.769
1280 42.4489
1536 50.7168
1792 58.5556
2048 66.2657
2304 75.8929
2560 81.2786
2816 87.9616
3072 97.5382
3328 104.911
3584 113.377
3840 121.401
4096 128.482
4352 135.426
4608 143.861
4864 150.765
5120 158.054
5376 164.865
EOD
$curve1 << EOD
0 2.71289
256 10.8823
512 20.112
768 27.739
1024 34.9597
1280 42.6802
1536 50.9547
1792 58.8556
2048 66.5478
2304 76.2871
2560 81.7608
2816 88.5467
3072 98.1241
3328 105.506
3584 113.967
3840 121.722
4096 129.285
4352 136.774
4608 145.158
4864 151.769
5120 159.639
5376 166.43
EOD
$curve2 << EOD
0 2.70674
256 10.8046
512 19.9372
768 27.4908
1024 34.6864
1280 42.3346
1536 50.6064
1792 58.3508
2048 67.2766
2304 76.6603
2560 83.0099
2816 89.7924
3072 99.7402
3328 107.041
3584 116.638
3840 125.109
4096 133.02
4352 137.618
4608 152.903
4864 157.761
5120 162.159
5376 170.582
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'pascal', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'pascal-nomigration', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pascal-nonadaptive'
