if (!exists('picture')) picture = 'long-ttft.svg'
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
set title 'Mean time to first token'
set xlabel 'requests per second'
set ylabel 'seconds'
set key outside right top
set logscale y
$curve0 << EOD
30 0.199237
60 0.447312
90 0.85783
120 1.65271
200 7.28556
EOD
$curve1 << EOD
30 0.120282
60 0.214412
90 0.442523
120 0.976378
200 6.49844
EOD
$curve2 << EOD
30 0.129009
60 0.250246
90 0.41471
120 1.05471
200 12.1224
EOD
$curve3 << EOD
30 0.127538
60 0.293506
90 0.692369
120 1.36805
200 4.04636
EOD
$curve4 << EOD
30 0.096401
60 0.138341
90 0.217533
120 0.471566
200 3.96355
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
