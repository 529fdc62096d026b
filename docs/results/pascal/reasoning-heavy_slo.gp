if (!exists('picture')) picture = 'reasoning-heavy_slo.svg'
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
set title 'Figure 11: SLO missed, reasoning-heavy'
set xlabel 'load, % of saturation'
set ylabel 'share'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0.0286084
0.0526767
EOD
$curve1 << EOD
0.0255174
0.0486696
EOD
$curve2 << EOD
0.0260066
0.0654317
EOD
$curve3 << EOD
0.0194229
0.0344518
EOD
$curve4 << EOD
0.0357332
0.0556926
EOD
$curve5 << EOD
0.00600039
0.00716255
EOD
$curve6 << EOD
0.061649
0.108402
EOD
$curve7 << EOD
3.31565e-05
3.35909e-05
EOD
$curve8 << EOD
0
0
EOD
$curve9 << EOD
6.64454e-05
6.67474e-05
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('99' 0, '105' 1)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'improved', $curve9 using 1  lc 10 title 'oracle'
