if (!exists('picture')) picture = 'figure1.svg'
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
set title 'Mean time to first token'
set xlabel 'seconds'
set ylabel 'seconds'
set key outside right top
set yrange [0:*]
$curve0 << EOD
5 0.230189
15 0.232012
25 0.177665
35 0.18753
45 0.167537
55 0.176121
65 0.214339
75 0.182906
85 0.179926
95 0.580379
105 0.590044
115 0.734152
125 0.213511
135 0.182722
145 0.189328
155 0.188323
165 0.188727
175 0.166041
185 0.181375
195 0.196519
205 0.179869
215 0.181499
225 0.203799
235 0.229452
EOD
$curve1 << EOD
5 0.268327
15 0.271527
25 0.210001
35 0.234694
45 0.202754
55 0.220007
65 0.251061
75 0.231359
85 0.231382
95 0.480124
105 0.46274
115 0.502114
125 0.22821
135 0.230644
145 0.219905
155 0.228081
165 0.23514
175 0.211845
185 0.23473
195 0.239833
205 0.229089
215 0.226516
225 0.240524
235 0.26326
EOD
$curve2 << EOD
5 0.231309
15 0.224916
25 0.187363
35 0.199411
45 0.17465
55 0.181877
65 0.203416
75 0.187471
85 0.186316
95 0.447222
105 0.441393
115 0.502073
125 0.196654
135 0.186788
145 0.186105
155 0.200406
165 0.199218
175 0.181157
185 0.204484
195 0.196688
205 0.184923
215 0.185511
225 0.205202
235 0.217187
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'DistServe', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Splitwise', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'Phasor'
