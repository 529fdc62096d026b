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
5 49.9478
10 61.279
20 79.6952
40 101.798
60 134.876
EOD
$curve1 << EOD
5 47.3938
10 55.6932
20 76.5886
40 108.083
60 121.96
EOD
$curve2 << EOD
5 50.2411
10 63.6947
20 105.063
40 144.645
60 159.169
EOD
$curve3 << EOD
5 44.9341
10 50.5235
20 68.8363
40 84.4126
60 89.7442
EOD
$curve4 << EOD
5 49.5767
10 54.9073
20 75.667
40 113.91
60 130.496
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'DistServe, planned', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'colocated', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'Phasor'
