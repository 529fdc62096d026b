if (!exists('picture')) picture = 'figure10-L-S.svg'
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
set title 'summaries (L-S)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 6.17496
10 9.15201
20 53.7041
40 80.768
60 91.9149
EOD
$curve1 << EOD
5 5.87284
10 6.82284
20 33.442
40 81.5909
60 97.9962
EOD
$curve2 << EOD
5 6.22131
10 7.05298
20 10.0997
40 39.7096
60 55.5171
EOD
$curve3 << EOD
5 5.74988
10 6.34258
20 8.44993
40 28.9268
60 44.4159
EOD
$curve4 << EOD
5 5.96987
10 6.47158
20 13.0305
40 56.2981
60 72.4361
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'colocated', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'Phasor'
