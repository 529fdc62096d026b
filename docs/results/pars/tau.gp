if (!exists('picture')) picture = 'tau.svg'
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
set title 'Latency in a burst against the quality of the ranking'
set xlabel 'tau-b'
set ylabel 'latency per token / oracle''s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0 1.97082
0.2 1.48488
0.3 1.33698
0.4 1.23653
0.5 1.15863
0.55 1.12701
0.6 1.09949
0.65 1.07572
0.7 1.05543
0.8 1.02481
0.9 1.00637
0.95 1.00173
1 1
EOD
$curve1 << EOD
0 2.52158
0.2 1.9971
0.3 1.76175
0.4 1.56329
0.5 1.40132
0.55 1.33399
0.6 1.27271
0.65 1.2132
0.7 1.16264
0.8 1.08007
0.9 1.01945
0.95 1.00066
1 1
EOD
$curve2 << EOD
0 12.6013
0.2 6.00716
0.3 3.77366
0.4 2.48316
0.5 1.78509
0.55 1.56838
0.6 1.40823
0.65 1.28763
0.7 1.19628
0.8 1.0763
0.9 1.01644
0.95 1.00315
1 1
EOD
$curve3 << EOD
0 21.964
0.2 10.9197
0.3 6.54375
0.4 3.92246
0.5 2.55999
0.55 2.13299
0.6 1.80822
0.65 1.57752
0.7 1.39274
0.8 1.14864
0.9 1.02075
0.95 0.993168
1 1
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'GPT-4''s lengths, mean', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'GPT-4''s lengths, P90', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'R1''s spread, mean', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'R1''s spread, P90'
