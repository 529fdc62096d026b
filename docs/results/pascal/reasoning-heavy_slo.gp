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
0.0220911
0.0499846
EOD
$curve1 << EOD
0.0222545
0.0459752
EOD
$curve2 << EOD
0.0204429
0.0609501
EOD
$curve3 << EOD
0.0194239
0.033054
EOD
$curve4 << EOD
0.0351182
0.0534194
EOD
$curve5 << EOD
0.00542844
0.00620156
EOD
$curve6 << EOD
0.0502471
0.108569
EOD
$curve7 << EOD
6.6313e-05
0.000100003
EOD
$curve8 << EOD
0
0
EOD
$curve9 << EOD
3.31565e-05
3.35909e-05
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('99' 0, '105' 1)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
