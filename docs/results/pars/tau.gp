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
0 6.33991
0.2 4.3828
0.3 3.35977
0.4 2.44895
0.5 1.87726
0.55 1.67453
0.6 1.48645
0.65 1.35029
0.7 1.23175
0.8 1.09379
0.9 1.01627
0.95 0.990879
1 1
EOD
$curve3 << EOD
0 6.86726
0.2 4.85622
0.3 3.52514
0.4 2.59914
0.5 2.00156
0.55 1.76678
0.6 1.54287
0.65 1.36819
0.7 1.23431
0.8 1.08123
0.9 1.0069
0.95 0.972837
1 1
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'GPT-4''s lengths, mean', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'GPT-4''s lengths, P90', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'R1''s spread, mean', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'R1''s spread, P90'
