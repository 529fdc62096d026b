if (!exists('picture')) picture = 'steady-tpot.svg'
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
30 0.0216904
40 0.0552617
50 0.0695062
60 0.0694987
EOD
$curve1 << EOD
30 0.0200526
40 0.0557129
50 0.0683988
60 0.0660975
EOD
$curve2 << EOD
30 0.0217106
40 0.0568263
50 0.0691538
60 0.0694245
EOD
$curve3 << EOD
30 0.0066852
40 0.0177361
50 0.0471595
60 0.0863295
EOD
$curve4 << EOD
30 0.0036268
40 0.00739993
50 0.0416424
60 0.0849449
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
