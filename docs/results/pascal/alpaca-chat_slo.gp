if (!exists('picture')) picture = 'alpaca-chat_slo.svg'
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
set title 'Figure 11: SLO missed, alpaca-chat'
set xlabel 'load, % of saturation'
set ylabel 'share'
set key outside right top
set yrange [0:*]
$curve0 << EOD
0
0.00324341
0.0168492
0.0527918
0.0798833
EOD
$curve1 << EOD
0.000372571
0.00340226
0.0163077
0.0514416
0.0767893
EOD
$curve2 << EOD
0
0.00059858
0.00479543
0.0253156
0.0536774
EOD
$curve3 << EOD
0
0.000398833
0.00276468
0.00845493
0.0172302
EOD
$curve4 << EOD
0
0.000239463
0.0155869
0.12441
0.245851
EOD
$curve5 << EOD
0.0125355
0.0257959
0.0563716
0.166705
0.245573
EOD
$curve6 << EOD
0
0.00180692
0.0431165
0.163098
0.27646
EOD
$curve7 << EOD
0
0
0
0
0
EOD
$curve8 << EOD
0
0
0
0
0
EOD
$curve9 << EOD
0
0
0
0
0
EOD
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8
set xtics ('80' 0, '93' 1, '99' 2, '105' 3, '110' 4)
plot $curve0 using 1  lc 1 title 'fcfs', $curve1 using 1  lc 2 title 'sarathi', $curve2 using 1  lc 3 title 'rr', $curve3 using 1  lc 4 title 'rr-quanta', $curve4 using 1  lc 5 title 'pascal', $curve5 using 1  lc 6 title 'pascal-nonadaptive', $curve6 using 1  lc 7 title 'pascal-nomigration', $curve7 using 1  lc 8 title 'pascal-paced', $curve8 using 1  lc 9 title 'due-first', $curve9 using 1  lc 10 title 'oracle'
