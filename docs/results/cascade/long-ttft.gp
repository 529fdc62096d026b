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
30 0.197209
60 0.428302
90 0.80363
120 1.50883
EOD
$curve1 << EOD
30 0.120017
60 0.200475
90 0.408609
120 0.868755
EOD
$curve2 << EOD
30 0.126713
60 0.274811
90 0.69523
120 1.18745
EOD
$curve3 << EOD
30 0.0993954
60 0.121478
90 0.206749
120 0.352704
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'CascadeInfer', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'steady'
