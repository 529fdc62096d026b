if (!exists('picture')) picture = 'figure10-S-L.svg'
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
set title 'code (S-L)'
set xlabel 'requests per second'
set ylabel 'P99 end to end, seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 113.067
10 178.461
20 243.905
40 280.088
60 287.151
EOD
$curve1 << EOD
5 102.599
10 133.296
20 183.768
40 218.255
60 232.042
EOD
$curve2 << EOD
5 112.874
10 178.58
20 247.241
40 286.901
60 301.655
EOD
$curve3 << EOD
5 90.4161
10 102.068
20 118.638
40 133.891
60 137.64
EOD
$curve4 << EOD
5 101.177
10 120.35
20 170.86
40 256.11
60 218.63
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'colocated', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'Phasor'
