if (!exists('picture')) picture = 'long-throughput.svg'
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
30 36179.4
60 58658.5
90 68118.1
120 71263.2
200 58552.3
EOD
$curve1 << EOD
30 36773.5
60 59287
90 68949.6
120 73003.2
200 58361.6
EOD
$curve2 << EOD
30 36841.2
60 58134.4
90 68599.5
120 72109.1
200 55083.2
EOD
$curve3 << EOD
30 39666.2
60 70100.8
90 90415.6
120 103140
200 117609
EOD
$curve4 << EOD
30 40662
60 70407
90 83951.6
120 90873.2
200 82658
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
