if (!exists('picture')) picture = 'figure13.svg'
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
set title 'Prediction error'
set xlabel 'relative error'
set ylabel 'part of the batches'
set key outside right top
set yrange [0:*]
$curve0 << EOD
-0.975 0
-0.925 0
-0.875 0
-0.825 0
-0.775 0
-0.725 0
-0.675 0
-0.625 0
-0.575 0
-0.525 0
-0.475 0.00474684
-0.425 0.00632911
-0.375 0
-0.325 0.00474684
-0.275 0.00632911
-0.225 0.0126582
-0.175 0.0205696
-0.125 0.0522152
-0.075 0.155063
-0.025 0.31962
0.025 0.212025
0.075 0.0917722
0.125 0.0585443
0.175 0.0300633
0.225 0.0174051
0.275 0.00316456
0.325 0.00316456
0.375 0
0.425 0.00158228
0.475 0
0.525 0
0.575 0
0.625 0
0.675 0
0.725 0
0.775 0
0.825 0
0.875 0
0.925 0
0.975 0
EOD
$curve1 << EOD
-0.975 0
-0.925 0.00632911
-0.875 0.0110759
-0.825 0.0174051
-0.775 0.0142405
-0.725 0.0506329
-0.675 0.0158228
-0.625 0.0110759
-0.575 0.00632911
-0.525 0.0158228
-0.475 0.0221519
-0.425 0.0300633
-0.375 0.0174051
-0.325 0.00158228
-0.275 0.00474684
-0.225 0.00158228
-0.175 0.0158228
-0.125 0.00791139
-0.075 0.00474684
-0.025 0.00474684
0.025 0.0205696
0.075 0.00474684
0.125 0.0126582
0.175 0.0268987
0.225 0.0110759
0.275 0.00632911
0.325 0
0.375 0
0.425 0.00158228
0.475 0.00158228
0.525 0.00158228
0.575 0
0.625 0.00791139
0.675 0.0110759
0.725 0.00474684
0.775 0.00158228
0.825 0
0.875 0.00474684
0.925 0
0.975 0.00158228
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'cost model', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'constant'
