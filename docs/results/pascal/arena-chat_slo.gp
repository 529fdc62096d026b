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
set xlabel 'load'
set ylabel 'share'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5e-05
0.0026
0.0123
EOD
$curve1 << EOD
2.5e-05
0.000425
0.002725
EOD
$curve2 << EOD
5e-05
0.000875
0.004425
EOD
$curve3 << EOD
2.5e-05
0.000175
0.009075
EOD
$curve4 << EOD
0.004325
0.012775
0.036025
EOD
$curve5 << EOD
5e-05
0.001575
0.0331
EOD
$curve6 << EOD
2.5e-05
5e-05
0.0001
EOD
$curve7 << EOD
2.5e-05
2.5e-05
5e-05
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('low' 0, 'medium' 1, 'high' 2)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'rr', $curve2 using 1  lc 3 title 'rr-quanta', $curve3 using 1  lc 4 title 'pascal', $curve4 using 1  lc 5 title 'pascal-nonadaptive', $curve5 using 1  lc 6 title 'pascal-nomigration', $curve6 using 1  lc 7 title 'pascal-paced', $curve7 using 1  lc 8 title 'oracle'
