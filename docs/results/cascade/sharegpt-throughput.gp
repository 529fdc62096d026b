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
0.25 13011.8
0.5 26362.5
0.7 35883.2
0.85 36649
EOD
$curve1 << EOD
0.25 13010.1
0.5 26314.2
0.7 36252.7
0.85 37586.2
EOD
$curve2 << EOD
0.25 12986.5
0.5 26063.1
0.7 35829.8
0.85 38357.6
EOD
$curve3 << EOD
0.25 12987
0.5 26153.9
0.7 36397
0.85 38562.9
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'CascadeInfer', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'steady'
