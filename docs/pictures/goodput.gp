# replay --policy fcfs,pascal,sarathi,due-first --workload azure-conv --sweep rate-scale=1:9:1 --slo ttft_p99=2,tpot_p99=0.1
# --plot DIR: its first panel.
if (!exists('picture')) picture = 'goodput.svg'
set terminal svg size 900,360 dynamic background 'white'
set output picture
$run0 << EOD
1 5.48454 100 0.558286 0.0348027
2 10.9677 99.9875 0.648197 0.0415366
3 16.4495 99.975 0.776242 0.0507345
4 21.9327 99.975 0.847947 0.0594855
5 27.3918 99.8875 0.89302 0.0715104
6 28.6457 87.05 3.55313 0.0858725
7 8.90689 23.2 27.8876 0.0902188
8 5.36936 12.2375 52.7676 0.0911284
9 4.89906 9.925 71.19 0.0961348
EOD
$run1 << EOD
1 5.48454 100 0.551968 0.0346872
2 10.9691 100 0.620261 0.0411125
3 16.4516 99.9875 0.695347 0.0491104
4 21.919 99.9125 0.757868 0.0570262
5 27.3987 99.9125 0.888929 0.0705867
6 29.0694 88.3375 3.99058 0.0959403
7 8.70054 22.6625 26.5454 0.271652
8 4.92512 11.225 52.4415 0.275233
9 4.51035 9.1375 70.556 0.271692
EOD
$run2 << EOD
1 5.48454 100 0.593625 0.0260857
2 10.9691 100 0.660572 0.0275823
3 16.4516 99.9875 0.787018 0.0290897
4 21.9327 99.975 0.927035 0.0308659
5 27.4193 99.9875 1.19669 0.032758
6 32.8044 99.6875 1.63129 0.034903
7 36.4482 94.9375 2.69513 0.0369476
8 17.6822 40.3 8.41928 0.0393457
9 7.182 14.55 25.6362 0.0393879
EOD
$run3 << EOD
1 5.48454 100 0.540524 0.0259471
2 10.9691 100 0.590296 0.0272386
3 16.4536 100 0.666851 0.028663
4 21.9354 99.9875 0.741805 0.0304574
5 27.4193 99.9875 0.84997 0.0323227
6 32.899 99.975 1.0442 0.0344795
7 38.3678 99.9375 1.42338 0.0371967
8 18.5377 42.25 7.27057 0.0393031
9 7.32392 14.8375 24.6931 0.0395213
EOD
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
set datafile missing '?'
set lmargin 10
set rmargin 16
set key outside right top noenhanced
set title 'azure-conv, 8000 requests, 8 x h100-96gb-qwen-32b' noenhanced
set xlabel 'times the rate of the trace'
set ylabel 'requests per second in time'
set yrange [0:40]
plot $run0 using 1:2 with linespoints ls 1 dt 1 pt 4 ps 0.6 title 'fcfs', \
     $run1 using 1:2 with linespoints ls 2 dt 1 pt 5 ps 0.6 title 'pascal', \
     $run2 using 1:2 with linespoints ls 3 dt 1 pt 6 ps 0.6 title 'sarathi', \
     $run3 using 1:2 with linespoints ls 4 dt 1 pt 7 ps 0.6 title 'due-first'
