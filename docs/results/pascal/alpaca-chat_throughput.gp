if (!exists('picture')) picture = 'alpaca-chat_throughput.svg'
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
set title 'Figure 12: throughput, alpaca-chat'
set xlabel 'load'
set ylabel 'output tokens/s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
12947.8
14349.4
15031.2
EOD
$curve1 << EOD
12969.3
14410.5
15020.1
EOD
$curve2 << EOD
12952.6
14479.3
15028.8
EOD
$curve3 << EOD
13003.2
14458.4
15039.3
EOD
$curve4 << EOD
13036
14508.9
15026.2
EOD
$curve5 << EOD
12972.8
14411.8
14937.8
EOD
$curve6 << EOD
12946.7
14446.9
15065.1
EOD
$curve7 << EOD
12964.4
14454.2
15071.5
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('low' 0, 'medium' 1, 'high' 2)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'rr', $curve2 using 1  lc 3 title 'rr-quanta', $curve3 using 1  lc 4 title 'pascal', $curve4 using 1  lc 5 title 'pascal-nonadaptive', $curve5 using 1  lc 6 title 'pascal-nomigration', $curve6 using 1  lc 7 title 'pascal-paced', $curve7 using 1  lc 8 title 'oracle'
