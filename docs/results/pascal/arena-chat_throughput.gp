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
16219.8
17163.1
17666.3
17730.9
EOD
$curve1 << EOD
13950.6
16221.7
17172.3
17726.7
17843.7
EOD
$curve2 << EOD
13950.2
16214.5
17098
17554.5
17849
EOD
$curve3 << EOD
13950.4
16223.2
17198
18014.2
18616.8
EOD
$curve4 << EOD
13949.4
16221.9
17159.2
17729.8
18177.4
EOD
$curve5 << EOD
13970.1
16198.6
17114.1
17781.7
18278.7
EOD
$curve6 << EOD
13950.2
16219.2
17109.7
17584
18117.4
EOD
$curve7 << EOD
13950.2
16226.7
17211
17730.2
18056.2
EOD
$curve8 << EOD
13950.7
16228.4
17225.5
17647.8
17595.4
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
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'improved', $curve9 using 1  lc 10 title 'oracle'
