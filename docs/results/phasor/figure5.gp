if (!exists('picture')) picture = 'figure5.svg'
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
set title 'Requests in flight within the promises'
set xlabel ''
set ylabel 'relative to DistServe 4/4'
set key outside right top
set yrange [0:*]
$curve0 << EOD
1.30657
0.642713
0.758244
1.80937
1.39572
0.618182
EOD
$curve1 << EOD
1
1
1
1
1
1
EOD
$curve2 << EOD
1.85306
1.41068
1.38691
2.4625
1.84544
3.71074
EOD
$curve3 << EOD
1.96001
0.752381
0.951745
1.34688
1.64898
1.01488
EOD
$curve4 << EOD
0.931079
1.42857
1.64684
1.90625
1.88547
3.69752
EOD
$curve5 << EOD
1.39109
0.152092
0.337298
2.175
1.54469
0.547107
EOD
$curve6 << EOD
2.0156
0.316883
0.471134
2.46563
2.03352
1.81488
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('S-S' 0, 'M-M' 1, 'S-L' 2, 'L-S' 3, 'L-L' 4, 'mix' 5)
plot $curve0 using 1  lc 1 title 'Splitwise', $curve1 using 1  lc 2 title 'DistServe', $curve2 using 1  lc 3 title 'its best', $curve3 using 1  lc 4 title 'Phasor', $curve4 using 1  lc 5 title 'its best pools', $curve5 using 1  lc 6 title 'colocated', $curve6 using 1  lc 7 title 'due-first'
