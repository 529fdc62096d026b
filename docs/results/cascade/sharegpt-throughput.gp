if (!exists('picture')) picture = 'sharegpt-throughput.svg'
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
set xlabel 'load of the prompts'
set ylabel 'output tokens per second'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0.25 12785.6
0.5 26204.3
0.7 35820
0.85 36571.2
EOD
$curve1 << EOD
0.25 12761.3
0.5 26151.8
0.7 36204
0.85 37355.4
EOD
$curve2 << EOD
0.25 12769.1
0.5 26092.1
0.7 35640.3
0.85 34763.2
EOD
$curve3 << EOD
0.25 12733.1
0.5 25888.6
0.7 35541.5
0.85 37801
EOD
$curve4 << EOD
0.25 12750
0.5 25929.4
0.7 36317.6
0.85 38363.7
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
