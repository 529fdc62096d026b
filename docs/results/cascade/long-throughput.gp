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
30 36245.6
60 58685.7
90 68625.3
120 72692
EOD
$curve1 << EOD
30 36559.2
60 59671.1
90 69826
120 74697.3
EOD
$curve2 << EOD
30 39799.2
60 69192.6
90 88170.2
120 99180.5
EOD
$curve3 << EOD
30 40328.2
60 68976.8
90 82016.4
120 87849.6
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'CascadeInfer', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'steady'
