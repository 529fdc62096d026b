if (!exists('picture')) picture = 'steady-throughput.svg'
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
set title 'Throughput'
set xlabel 'requests per second'
set ylabel 'output tokens per second'
set key outside right top
set yrange [0:*]
$curve0 << EOD
30 46670.2
40 60865.5
50 61477
60 60566.1
EOD
$curve1 << EOD
30 46664.3
40 61336.7
50 61581.2
60 60638.6
EOD
$curve2 << EOD
30 46665
40 61317.4
50 61342.4
60 60499.1
EOD
$curve3 << EOD
30 46547.5
40 59818
50 70360.5
60 74140.1
EOD
$curve4 << EOD
30 46438.8
40 61867.4
50 70911.4
60 75945.3
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
