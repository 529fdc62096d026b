if (!exists('picture')) picture = 'alpaca-chat_slo.svg'
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
set title 'Figure 11: SLO missed, alpaca-chat'
set xlabel 'load'
set ylabel 'share'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0.000175
0.002175
0.01085
EOD
$curve1 << EOD
2.5e-05
0.000425
0.0032
EOD
$curve2 << EOD
2.5e-05
0.000375
0.0015
EOD
$curve3 << EOD
0
5e-05
0.006075
EOD
$curve4 << EOD
0.0102
0.0241
0.041775
EOD
$curve5 << EOD
0.000125
0.0036
0.018525
EOD
$curve6 << EOD
0
0
0
EOD
$curve7 << EOD
0
0
0
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('low' 0, 'medium' 1, 'high' 2)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'rr', $curve2 using 1  lc 3 title 'rr-quanta', $curve3 using 1  lc 4 title 'pascal', $curve4 using 1  lc 5 title 'pascal-nonadaptive', $curve5 using 1  lc 6 title 'pascal-nomigration', $curve6 using 1  lc 7 title 'pascal-paced', $curve7 using 1  lc 8 title 'oracle'
