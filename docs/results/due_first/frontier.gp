if (!exists('picture')) picture = 'frontier.svg'
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
set title 'What pace buys in PASCAL''s setting'
set xlabel 'worst bin, % of FCFS'
set ylabel 'best bin, % of FCFS'
set key outside right top
set yrange [0:*]
$curve0 << EOD
101.349 69.6414
101.484 54.5831
107.274 23.0347
107.809 15.4047
111.973 15.3268
122.349 15.2985
EOD
$curve1 << EOD
105.447 78.9831
112.137 41.316
113.393 22.1459
114.206 14.7481
119.735 11.1045
141.136 11.0982
EOD
$curve2 << EOD
116.742 71.4983
124.808 43.9121
120.804 24.3248
124.766 11.3706
125.407 6.09583
130.966 5.7239
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'arena-chat, 1.05', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'arena-chat, 1.1', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'reasoning-heavy, 1.1'
