if (!exists('picture')) picture = 'r1-servegen_slo.svg'
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
set title 'Figure 11: SLO missed, r1-servegen'
set xlabel 'load, % of saturation'
set ylabel 'share'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0.0194512
0.0225672
EOD
$curve1 << EOD
0.00385447
0.00849631
EOD
$curve2 << EOD
0.0209122
0.0279673
EOD
$curve3 << EOD
0.0144733
0.0172949
EOD
$curve4 << EOD
0.00609181
0.00879452
EOD
$curve5 << EOD
0.00209948
0.00366671
EOD
$curve6 << EOD
0.0138505
0.017071
EOD
$curve7 << EOD
0.0146016
0.0147847
EOD
$curve8 << EOD
3.31675e-05
0
EOD
$curve9 << EOD
0.0136153
0.0126852
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('99' 0, '105' 1)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
