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
5 111.429
10 173.433
20 238.156
40 272.642
60 282.413
EOD
$curve1 << EOD
5 101.402
10 130.995
20 179.224
40 213.842
60 225.965
EOD
$curve2 << EOD
5 100.356
10 119.226
20 167.887
40 248.002
60 213.661
EOD
$curve3 << EOD
5 99.4798
10 119.639
20 159.732
40 201.359
60 199.831
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'Phasor', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'Phasor, queues counted'
