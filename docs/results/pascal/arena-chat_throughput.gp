if (!exists('picture')) picture = 'arena-chat_throughput.svg'
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
set title 'Figure 12: throughput, arena-chat'
set xlabel 'load, % of saturation'
set ylabel 'output tokens/s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
13949.9
16219.6
17165.5
17654.5
17725.7
EOD
$curve1 << EOD
13950.6
16221.5
17179.4
17740.6
17845.1
EOD
$curve2 << EOD
13950.2
16214.3
17096.9
17555.7
17849.4
EOD
$curve3 << EOD
13950.4
16222.9
17195.9
18014.1
18618.8
EOD
$curve4 << EOD
13949.2
16221.5
17151.7
17720.1
18175.6
EOD
$curve5 << EOD
13979.1
16194.6
17108.9
17785
18282.5
EOD
$curve6 << EOD
13950.1
16222.4
17100.7
17625.2
18071.1
EOD
$curve7 << EOD
13950.2
16226.3
17211.5
17732.6
18057.2
EOD
$curve8 << EOD
13951.2
16228.4
17226
17815.7
18128
EOD
$curve9 << EOD
13950.3
16228.2
17250.2
18262.7
19099.1
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('80' 0, '93' 1, '99' 2, '105' 3, '110' 4)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
