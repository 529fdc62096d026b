if (!exists('picture')) picture = 'figure10-S-S.svg'
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
set title 'short questions (S-S)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
20 5.06734
40 5.11692
60 5.1883
EOD
$curve1 << EOD
20 5.0468
40 5.08329
60 5.14886
EOD
$curve2 << EOD
20 5.06048
40 5.11484
60 5.19111
EOD
$curve3 << EOD
20 5.0468
40 5.0727
60 5.13139
EOD
$curve4 << EOD
20 5.0526
40 5.12423
60 5.23918
EOD
$curve5 << EOD
20 5.06858
40 5.12708
60 5.2071
EOD
$curve6 << EOD
20 5.04063
40 5.08303
60 5.13027
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise 3/3/2', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe 4/4', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'DistServe, best split', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'colocated', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'Phasor 3/3/2', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'Phasor, best pools'
