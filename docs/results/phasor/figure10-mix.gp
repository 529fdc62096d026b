if (!exists('picture')) picture = 'figure10-mix.svg'
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
set title 'production mix (mix)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
10 11.0559
20 15.0831
30 44.2204
40 150.658
60 508.84
EOD
$curve1 << EOD
10 10.8488
20 11.9149
30 22.64
40 163.114
60 491.048
EOD
$curve2 << EOD
10 13.346
20 65.2989
30 331.689
40 603.837
60 1154.37
EOD
$curve3 << EOD
10 10.8488
20 11.9149
30 13.8039
40 39.6514
60 296.217
EOD
$curve4 << EOD
10 11.0565
20 12.5593
30 15.1054
40 22.4928
60 214.487
EOD
$curve5 << EOD
10 11.0747
20 12.2806
30 14.4908
40 39.8202
60 296.183
EOD
$curve6 << EOD
10 10.8522
20 11.9209
30 13.8017
40 39.6018
60 296.183
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise 3/3/2', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe 4/4', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'DistServe, best split', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'colocated', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'Phasor 3/3/2', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'Phasor, best pools'
