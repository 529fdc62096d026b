if (!exists('picture')) picture = 'sharegpt-tpot.svg'
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
set title 'Mean time per output token'
set xlabel 'load of the prompts'
set ylabel 'seconds'
set key outside right top
set logscale y
$curve0 << EOD
0.25 0.00330087
0.5 0.00887356
0.7 0.0292469
0.85 0.0668822
EOD
$curve1 << EOD
0.25 0.00315745
0.5 0.00842396
0.7 0.0272422
0.85 0.0657066
EOD
$curve2 << EOD
0.25 0.00351224
0.5 0.00870285
0.7 0.0263817
0.85 0.0472542
EOD
$curve3 << EOD
0.25 0.00345774
0.5 0.00665956
0.7 0.0204401
0.85 0.0438698
EOD
$curve4 << EOD
0.25 0.00324535
0.5 0.00649041
0.7 0.0225288
0.85 0.051766
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
