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
5 23.8193
10 28.0922
20 78.4102
40 118.59
60 143.574
EOD
$curve1 << EOD
5 22.947
10 26.1552
20 48.8776
40 93.2926
60 108.678
EOD
$curve2 << EOD
5 23.9963
10 27.4418
20 85.6852
40 82.5474
60 96.5849
EOD
$curve3 << EOD
5 23.966
10 27.3953
20 86.0505
40 81.8357
60 96.0946
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'Splitwise', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'DistServe', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'Phasor', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'Phasor, queues counted'
