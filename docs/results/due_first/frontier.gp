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
100.016 64.6861
99.825 53.5678
105.429 22.9038
106.937 15.8017
110.585 15.7046
118.146 15.7066
EOD
$curve1 << EOD
104.61 77.0323
109.501 43.2764
111.844 21.7228
112.128 14.5728
118.606 11.1683
142.76 11.131
EOD
$curve2 << EOD
120.89 73.8929
123.988 43.0687
121.771 21.6861
120.341 13.0256
130.142 5.42298
132.693 5.33499
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'arena-chat, 1.05', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'arena-chat, 1.1', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'reasoning-heavy, 1.1'
