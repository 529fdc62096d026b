if (!exists('picture')) picture = 'sharegpt-ttft.svg'
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
set xlabel 'load of the prompts'
set ylabel 'seconds'
set key outside right top
set logscale y
$curve0 << EOD
0.25 0.146108
0.5 0.186624
0.7 0.336157
0.85 0.743901
EOD
$curve1 << EOD
0.25 0.150005
0.5 0.177249
0.7 0.238816
0.85 0.44361
EOD
$curve2 << EOD
0.25 0.16682
0.5 0.223991
0.7 0.394523
0.85 1.8365
EOD
$curve3 << EOD
0.25 0.16253
0.5 0.208939
0.7 0.335711
0.85 0.855211
EOD
$curve4 << EOD
0.25 0.152812
0.5 0.181802
0.7 0.221081
0.85 0.466087
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'round-robin', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Llumnix-like', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'least load, bounded steps', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'CascadeInfer', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'steady'
