if (!exists('picture')) picture = 'figure4.svg'
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
set title 'Reasoning latency relative to the oracle'
set xlabel 'tokens'
set ylabel 'times the oracle'
set key outside right top
set yrange [0:*]
$curve0 << EOD
1
1
1
1
1
EOD
$curve1 << EOD
6.90771
2.73436
1.83149
1.54406
1.39051
EOD
$curve2 << EOD
3.11941
2.19449
2.01267
1.89991
1.84333
EOD
$curve3 << EOD
0.969878
0.966839
1.66793
2.65915
2.53762
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('128' 0, '512' 1, '1024' 2, '1536' 3, '2048' 4)
plot $curve0 using 1  lc 1 title 'oracle', $curve1 using 1  lc 2 title 'fcfs', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta'
