if (!exists('picture')) picture = 'arena-chat_slo.svg'
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
set title 'Figure 11: SLO missed, arena-chat'
set xlabel 'load, % of saturation'
set ylabel 'share'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0.000213458
0.00455775
0.0182102
0.0419718
0.0514684
EOD
$curve1 << EOD
0
0.00381208
0.0184089
0.0398213
0.051681
EOD
$curve2 << EOD
5.34367e-05
0.000744466
0.00844789
0.0531669
0.11151
EOD
$curve3 << EOD
2.65781e-05
0.00154158
0.0141896
0.0417307
0.0551663
EOD
$curve4 << EOD
0
0.00147016
0.0495024
0.239912
0.381414
EOD
$curve5 << EOD
0.00196542
0.0164724
0.0972481
0.249161
0.30857
EOD
$curve6 << EOD
2.67559e-05
0.00507662
0.0977565
0.323764
0.451916
EOD
$curve7 << EOD
0
5.32181e-05
7.99365e-05
0.000106403
0.000106342
EOD
$curve8 << EOD
0
0
0
0
0
EOD
$curve9 << EOD
2.66809e-05
6.66279e-05
0.000106421
3.98725e-05
2.67184e-05
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('80' 0, '93' 1, '99' 2, '105' 3, '110' 4)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
