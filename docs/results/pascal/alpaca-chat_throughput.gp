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
set xlabel 'load, % of saturation'
set ylabel 'output tokens/s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
16349.4
18952.8
20046.2
20792.1
21099.7
EOD
$curve1 << EOD
16348.1
18949.8
20042.7
20808.7
21100.2
EOD
$curve2 << EOD
16348.7
18952.4
20037.7
20761.4
21194.4
EOD
$curve3 << EOD
16349.3
18960.4
20097
21129.6
21926.8
EOD
$curve4 << EOD
16348.5
18959.7
20032.2
20862.5
21428.7
EOD
$curve5 << EOD
16338.2
18915.8
19969.6
20870.7
21565.1
EOD
$curve6 << EOD
16348.9
18958
19992.9
20656.2
21026.6
EOD
$curve7 << EOD
16348.9
18965
20118.7
20984.8
21469.4
EOD
$curve8 << EOD
16349.1
18966.2
20123.1
20999.6
21477.2
EOD
$curve9 << EOD
16349.1
18967.5
20140.9
21300.3
22254.3
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('80' 0, '93' 1, '99' 2, '105' 3, '110' 4)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
