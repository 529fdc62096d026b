if (!exists('picture')) picture = 'reasoning-heavy_throughput.svg'
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
set title 'Figure 12: throughput, reasoning-heavy'
set xlabel 'load, % of saturation'
set ylabel 'output tokens/s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
7183.09
7470.22
EOD
$curve1 << EOD
7181.91
7477.46
EOD
$curve2 << EOD
7178.38
7466.46
EOD
$curve3 << EOD
7204.81
7558.97
EOD
$curve4 << EOD
7194.13
7536.56
EOD
$curve5 << EOD
7171.71
7508.86
EOD
$curve6 << EOD
7198.09
7526.54
EOD
$curve7 << EOD
7207.93
7496.51
EOD
$curve8 << EOD
7215.11
7532.44
EOD
$curve9 << EOD
7237.9
7653.43
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('99' 0, '105' 1)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
