if (!exists('picture')) picture = 'steady-ttft.svg'
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
30 0.272206
40 6.55881
50 245.88
60 623.646
EOD
$curve1 << EOD
30 0.140414
40 0.253267
50 242.243
60 648.963
EOD
$curve2 << EOD
30 0.298245
40 0.727982
50 242.845
60 623.599
EOD
$curve3 << EOD
30 0.156374
40 11.5443
50 36.0393
60 126.124
EOD
$curve4 << EOD
30 0.108802
40 0.120766
50 41.45
60 148.726
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
