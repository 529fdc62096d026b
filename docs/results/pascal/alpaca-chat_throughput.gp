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
18952.4
20049.6
20801.7
21051.5
EOD
$curve1 << EOD
16348.1
18950
20047.2
20823.2
21112
EOD
$curve2 << EOD
16348.7
18952.4
20036.8
20763.6
21232.7
EOD
$curve3 << EOD
16349.3
18959.9
20095.1
21127.5
21928.1
EOD
$curve4 << EOD
16347.6
18959.4
20041.9
20868.5
21398.6
EOD
$curve5 << EOD
16341.4
18918.1
19976.2
20892.5
21586.3
EOD
$curve6 << EOD
16349.2
18953.8
19989.4
20638
21015.5
EOD
$curve7 << EOD
16348.9
18965.2
20119.1
20982.3
21468.3
EOD
$curve8 << EOD
16349
18966.6
20123.8
20949
21159.4
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
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'improved', $curve9 using 1  lc 10 title 'oracle'
