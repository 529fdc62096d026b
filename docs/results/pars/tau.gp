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
0 1.94025
0.2 1.49809
0.3 1.33915
0.4 1.23754
0.5 1.15876
0.55 1.12704
0.6 1.09941
0.65 1.0756
0.7 1.05531
0.8 1.02476
0.9 1.00638
0.95 1.00175
1 1
EOD
$curve1 << EOD
0 2.46772
0.2 1.97997
0.3 1.74693
0.4 1.55544
0.5 1.3969
0.55 1.32754
0.6 1.27039
0.65 1.21185
0.7 1.15944
0.8 1.07709
0.9 1.01877
0.95 0.999847
1 1
EOD
$curve2 << EOD
0 5.90607
0.2 4.07504
0.3 3.11729
0.4 2.27142
0.5 1.74692
0.55 1.57768
0.6 1.40665
0.65 1.28568
0.7 1.19723
0.8 1.08104
0.9 1.01971
0.95 0.995978
1 1
EOD
$curve3 << EOD
0 6.14441
0.2 4.3347
0.3 3.13107
0.4 2.29069
0.5 1.76619
0.55 1.60181
0.6 1.42116
0.65 1.27391
0.7 1.1872
0.8 1.06994
0.9 1.02034
0.95 0.985248
1 1
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'GPT-4''s lengths, mean', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'GPT-4''s lengths, P90', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'R1''s spread, mean', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'R1''s spread, P90'
