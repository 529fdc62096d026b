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
5 10.6453
10 10.9943
20 12.6671
40 48.8224
60 56.1515
EOD
$curve1 << EOD
5 10.474
10 10.8032
20 11.5648
40 21.7784
60 36.6269
EOD
$curve2 << EOD
5 10.5409
10 10.9733
20 12.0156
40 15.8582
60 26.0372
EOD
$curve3 << EOD
5 10.5363
10 10.9714
20 12.0115
40 15.8591
60 26.0192
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'Phasor', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'Phasor, queues counted'
