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
0.0174576
0.0223322
EOD
$curve1 << EOD
0.00485474
0.00955232
EOD
$curve2 << EOD
0.0208023
0.0323969
EOD
$curve3 << EOD
0.0151057
0.0174563
EOD
$curve4 << EOD
0.00575831
0.00740328
EOD
$curve5 << EOD
0.00279926
0.00312578
EOD
$curve6 << EOD
0.01653
0.0179398
EOD
$curve7 << EOD
0.0153873
0.0153297
EOD
$curve8 << EOD
0
3.37154e-05
EOD
$curve9 << EOD
0.0134702
0.0127596
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('99' 0, '105' 1)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'improved', $curve9 using 1  lc 10 title 'oracle'
