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
5 10.6721
10 11.0855
20 13.0945
40 50.3507
60 57.9113
EOD
$curve1 << EOD
5 10.5336
10 10.9093
20 11.7455
40 22.8026
60 37.9407
EOD
$curve2 << EOD
5 11.629
10 13.2424
20 23.9058
40 62.5436
60 77.8202
EOD
$curve3 << EOD
5 10.553
10 11.1141
20 12.3851
40 17.7828
60 24.581
EOD
$curve4 << EOD
5 10.6345
10 11.0889
20 12.1698
40 16.2609
60 27.0857
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'colocated', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'Phasor'
