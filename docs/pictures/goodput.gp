# replay --policy fcfs,pascal,sarathi,due-first --workload azure-conv --sweep rate-scale=1:9:1 --slo ttft_p99=2,tpot_p99=0.1
# --plot DIR: its first panel.
if (!exists('picture')) picture = 'goodput.svg'
set terminal svg size 900,360 dynamic background 'white'
set output picture
$run0 << EOD
1 5.48385 100 0.558286 0.0348027
2 10.9663 99.9875 0.648197 0.0415366
3 16.4474 99.975 0.776242 0.0507345
4 21.9299 99.975 0.847947 0.0594855
5 27.3884 99.8875 0.89302 0.0715104
6 28.6422 87.05 3.55313 0.0858725
7 8.90578 23.2 27.8876 0.0902188
8 5.36869 12.2375 52.7676 0.0911284
9 4.89845 9.925 71.19 0.0961348
EOD
$run1 << EOD
1 5.48385 100 0.551968 0.0346872
2 10.9677 100 0.620261 0.0411125
3 16.4495 99.9875 0.695347 0.0491104
4 21.9162 99.9125 0.757868 0.0570262
5 27.3953 99.9125 0.888929 0.0705867
6 29.0658 88.3375 3.99058 0.0959403
7 8.69945 22.6625 26.5454 0.271652
8 4.9245 11.225 52.4415 0.275233
9 4.50978 9.1375 70.556 0.271692
EOD
$run2 << EOD
1 5.48385 100 0.593625 0.0260857
2 10.9677 100 0.660572 0.0275823
3 16.4495 99.9875 0.787018 0.0290897
4 21.9299 99.975 0.927035 0.0308659
5 27.4158 99.9875 1.19669 0.032758
6 32.8003 99.6875 1.63129 0.034903
7 36.4436 94.9375 2.69513 0.0369476
8 17.6799 40.3 8.41928 0.0393457
9 7.18111 14.55 25.6362 0.0393879
EOD
$run3 << EOD
1 5.48385 100 0.550344 0.0259286
2 10.9677 100 0.604169 0.0272937
3 16.4516 100 0.665792 0.0286172
4 21.9299 99.975 0.728566 0.0301514
5 27.4158 99.9875 0.870092 0.0325681
6 32.8949 99.975 1.13709 0.0347504
7 38.0223 99.05 1.96623 0.0372442
8 34.0931 77.7125 12.2005 0.0479102
9 13.5417 27.4375 28.8627 0.0542897
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
