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
30 0.00653618
60 0.0137369
90 0.0256089
120 0.0395519
EOD
$curve1 << EOD
30 0.00580042
60 0.0127755
90 0.025275
120 0.0396671
EOD
$curve2 << EOD
30 0.00362172
60 0.00645072
90 0.0106179
120 0.0162168
EOD
$curve3 << EOD
30 0.00304184
60 0.00573071
90 0.0127476
120 0.0254873
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'CascadeInfer', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'steady'
