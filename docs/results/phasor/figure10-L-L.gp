if (!exists('picture')) picture = 'figure10-L-L.svg'
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
set title 'translation (L-L)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 23.9046
10 32.6779
20 226.216
EOD
$curve1 << EOD
5 23.1393
10 27.3095
20 183.537
EOD
$curve2 << EOD
5 24.0961
10 29.6398
20 165.423
EOD
$curve3 << EOD
5 22.869
10 29.5211
20 165.423
EOD
$curve4 << EOD
5 22.8939
10 27.3037
20 71.3201
EOD
$curve5 << EOD
5 24.2198
10 28.51
20 140.284
EOD
$curve6 << EOD
5 22.7746
10 29.5234
20 143.95
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise 3/3/2', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe 4/4', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'DistServe, best split', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'colocated', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'Phasor 3/3/2', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'Phasor, best pools'
