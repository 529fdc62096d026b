if (!exists('picture')) picture = 'long-tpot.svg'
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
set xlabel 'requests per second'
set ylabel 'seconds'
set key outside right top
set logscale y
$curve0 << EOD
30 0.00641521
60 0.0135067
90 0.0253329
120 0.04039
200 0.081976
EOD
$curve1 << EOD
30 0.0057218
60 0.0128253
90 0.0251306
120 0.0406567
200 0.0831285
EOD
$curve2 << EOD
30 0.00591946
60 0.0139956
90 0.0258306
120 0.0406404
200 0.0659193
EOD
$curve3 << EOD
30 0.00373301
60 0.00642115
90 0.0107976
120 0.0164276
200 0.0366653
EOD
$curve4 << EOD
30 0.00302204
60 0.0056047
90 0.0124274
120 0.0242098
200 0.0679624
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
