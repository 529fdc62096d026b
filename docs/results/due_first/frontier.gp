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
100.739 65.7474
103.924 53.893
107.941 23.3808
108.779 15.9262
112.28 15.697
123.291 15.7009
EOD
$curve1 << EOD
105.787 79.9506
110.741 44.1392
112.861 22.2311
114.081 14.9799
119.965 11.3396
143.392 11.3051
EOD
$curve2 << EOD
122.449 75.3986
122.722 47.3492
121.624 23.3086
120.789 14.1088
123.443 6.30926
130.914 6.21055
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'arena-chat, 1.05', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'arena-chat, 1.1', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'reasoning-heavy, 1.1'
