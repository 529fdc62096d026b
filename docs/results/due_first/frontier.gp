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
101.202 63.5353
102.978 52.0348
105.926 22.9685
109.281 15.4301
111.8 15.3041
119.848 15.2407
EOD
$curve1 << EOD
105.607 77.2638
111.119 44.3363
113.393 21.7439
114.355 14.7886
119.42 11.1199
143.813 11.0945
EOD
$curve2 << EOD
119.344 73.5827
120.581 45.47
123.206 22.1246
124.358 13.7858
123.426 6.21826
130.612 5.73354
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'arena-chat, 1.05', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'arena-chat, 1.1', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'reasoning-heavy, 1.1'
