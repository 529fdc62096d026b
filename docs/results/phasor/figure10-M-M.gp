if (!exists('picture')) picture = 'figure10-M-M.svg'
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
set title 'dialogue (M-M)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 49.6318
10 62.8445
20 224.252
EOD
$curve1 << EOD
5 47.0928
10 57.1722
20 197.799
EOD
$curve2 << EOD
5 50.0591
10 66.6837
20 406.023
EOD
$curve3 << EOD
5 44.8888
10 50.8731
20 91.8948
EOD
$curve4 << EOD
5 44.725
10 51.4055
20 95.2003
EOD
$curve5 << EOD
5 49.2733
10 55.9591
20 151.197
EOD
$curve6 << EOD
5 44.895
10 51.2275
20 93.2678
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise 3/3/2', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe 4/4', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'DistServe, best split', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'colocated', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'Phasor 3/3/2', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'Phasor, best pools'
