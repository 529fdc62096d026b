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
100.492 69.0045
102.86 53.6937
104.293 22.2213
106.636 15.8408
110.791 15.7018
120.317 15.7058
EOD
$curve1 << EOD
103.816 77.1056
110.74 44.8051
111.38 21.647
112.98 14.3098
117.979 11.1546
143.587 11.1206
EOD
$curve2 << EOD
118.548 71.5178
121.073 38.5203
120.581 21.0934
121.064 13.4623
123.601 5.49106
129.224 5.32117
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'arena-chat, 1.05', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'arena-chat, 1.1', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'reasoning-heavy, 1.1'
