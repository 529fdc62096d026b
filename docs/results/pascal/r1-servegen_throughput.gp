if (!exists('picture')) picture = 'r1-servegen_throughput.svg'
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
set title 'Figure 12: throughput, r1-servegen'
set xlabel 'load, % of saturation'
set ylabel 'output tokens/s'
set key outside right top
set yrange [0:*]
$curve0 << EOD
4304.19
4490.73
EOD
$curve1 << EOD
4343.28
4554.06
EOD
$curve2 << EOD
4359.05
4580.11
EOD
$curve3 << EOD
4369.62
4597.17
EOD
$curve4 << EOD
4363.51
4586.35
EOD
$curve5 << EOD
4328.64
4548.32
EOD
$curve6 << EOD
4370.75
4592.78
EOD
$curve7 << EOD
4367.65
4586.3
EOD
$curve8 << EOD
4383.84
4614.32
EOD
$curve9 << EOD
4387.95
4634.25
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('99' 0, '105' 1)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
