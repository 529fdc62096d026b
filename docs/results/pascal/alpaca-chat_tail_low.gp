if (!exists('picture')) picture = 'alpaca-chat_tail_low.svg'
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
set title 'Figures 9 and 10: alpaca-chat, low load'
set xlabel 'reasoning tokens (bins of 256)'
set ylabel 'tail TTFT, s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 7.34002
256 15.1328
512 23.0376
768 31.2698
1024 38.8491
1280 47.0713
1536 53.7922
1792 60.8825
2048 68.7003
2304 77.4193
2560 83.4953
2816 87.9473
3328 105.508
3584 113.211
3840 121.543
4864 152.373
5120 158.797
EOD
$curve1 << EOD
0 7.33469
256 15.0894
512 22.9622
768 30.8757
1024 38.9728
1280 46.6165
1536 54.3609
1792 60.8776
2048 68.5068
2304 77.6743
2560 83.3877
2816 88.0222
3328 105.396
3584 113.157
3840 122.228
4864 153.065
5120 159.377
EOD
$curve2 << EOD
0 7.33055
256 15.1184
512 22.945
768 30.7651
1024 38.3549
1280 46.3648
1536 53.4976
1792 60.9267
2048 68.4076
2304 77.1235
2560 83.503
2816 88.1672
3328 105.116
3584 113.041
3840 121.532
4864 154.795
5120 163.068
EOD
$curve3 << EOD
0 7.29357
256 14.9767
512 22.8655
768 30.5882
1024 38.3213
1280 46.0416
1536 53.2451
1792 60.421
2048 67.7848
2304 76.5738
2560 82.5006
2816 87.2784
3328 104.378
3584 112.05
3840 120.48
4864 152.024
5120 158.283
EOD
$curve4 << EOD
0 7.33907
256 15.1131
512 22.9187
768 30.7744
1024 38.4348
1280 46.4084
1536 53.6407
1792 60.7563
2048 68.3411
2304 77.0139
2560 83.2596
2816 87.7632
3328 105.361
3584 112.877
3840 120.994
4864 152.163
5120 159.117
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'fcfs', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'rr', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'rr-quanta', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'pascal', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'pascal-paced'
