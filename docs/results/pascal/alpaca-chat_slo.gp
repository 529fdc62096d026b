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
set xlabel 'load, % of saturation'
set ylabel 'share'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0
0.00341598
0.0167958
0.0513731
0.0784132
EOD
$curve1 << EOD
0.000372571
0.00346878
0.0163217
0.0497266
0.0771013
EOD
$curve2 << EOD
0
0.00059858
0.00446348
0.0253816
0.0542582
EOD
$curve3 << EOD
0
0.00038574
0.00256484
0.00855932
0.0177758
EOD
$curve4 << EOD
0
6.63716e-05
0.0175768
0.124714
0.244454
EOD
$curve5 << EOD
0.0118754
0.0241505
0.0584025
0.154308
0.235273
EOD
$curve6 << EOD
0.000343619
0.00169782
0.0412978
0.170969
0.281336
EOD
$curve7 << EOD
0
0
0
0
0
EOD
$curve8 << EOD
0
0
0
0
0
EOD
$curve9 << EOD
0
0
0
0
0
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('80' 0, '93' 1, '99' 2, '105' 3, '110' 4)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'improved', $curve9 using 1  lc 10 title 'oracle'
