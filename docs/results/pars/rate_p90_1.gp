if (!exists('picture')) picture = 'rate_p90_1.svg'
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
set title 'P90 latency per token, GPT-4''s lengths'
set xlabel 'load'
set ylabel 'ms per token'
set key outside right top
set logscale y
$curve0 << EOD
0.8 15.3709
0.95 20.8963
1 37.7714
1.1 319.705
EOD
$curve1 << EOD
0.8 15.3713
0.95 20.8963
1 37.7763
1.1 319.696
EOD
$curve2 << EOD
0.8 15.3709
0.95 20.8963
1 34.4961
1.1 47.2065
EOD
$curve3 << EOD
0.8 15.3709
0.95 20.8963
1 34.4913
1.1 46.5304
EOD
$curve4 << EOD
0.8 15.3709
0.95 20.8963
1 34.4742
1.1 56.7372
EOD
$curve5 << EOD
0.8 15.3709
0.95 20.8963
1 34.4742
1.1 46.857
EOD
$curve6 << EOD
0.8 15.3709
0.95 20.8963
1 34.4776
1.1 264.783
EOD
$curve7 << EOD
0.8 15.369
0.95 20.8963
1 34.4689
1.1 265.313
EOD
$curve8 << EOD
0.8 15.369
0.95 20.8963
1 34.6255
1.1 91.9797
EOD
$curve9 << EOD
0.8 15.3709
0.95 20.8963
1 34.3852
1.1 42.2093
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'FCFS', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'FCFS, steps bounded (`sarathi`)', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'pointwise SJF, never boosted', $curve3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 4 title 'listwise SJF, never boosted', $curve4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 5 title 'PARS, boosted after 120 s', $curve5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 6 title 'PARS, never boosted', $curve6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'PARS, smooth ageing', $curve7 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 8 title 'PARS, smooth ageing, steps bounded', $curve8 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 9 title '`due-first`', $curve9 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 10 title 'oracle SJF, never boosted'
