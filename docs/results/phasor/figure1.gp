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
5 0.213776
15 0.232443
25 0.180053
35 0.165923
45 0.17494
55 0.18636
65 0.177403
75 0.175691
85 0.185521
95 0.592224
105 0.715005
115 0.819587
125 0.213093
135 0.198899
145 0.173948
155 0.181869
165 0.198295
175 0.1633
185 0.174394
195 0.18881
205 0.170709
215 0.182741
225 0.237839
235 0.211066
EOD
$curve1 << EOD
5 0.260017
15 0.269893
25 0.208649
35 0.201044
45 0.205977
55 0.23655
65 0.225538
75 0.235819
85 0.239305
95 0.498171
105 0.486424
115 0.518397
125 0.226121
135 0.255777
145 0.210556
155 0.225081
165 0.250195
175 0.205219
185 0.227315
195 0.226704
205 0.218465
215 0.229942
225 0.277604
235 0.242912
EOD
$curve2 << EOD
5 0.210283
15 0.234596
25 0.192084
35 0.166862
45 0.177379
55 0.194812
65 0.176618
75 0.180894
85 0.176258
95 0.45354
105 0.446241
115 0.512831
125 0.189561
135 0.212077
145 0.175872
155 0.183981
165 0.212897
175 0.182554
185 0.205339
195 0.195774
205 0.176591
215 0.193031
225 0.224656
235 0.20144
EOD
plot $curve0 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 1 title 'DistServe', $curve1 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 2 title 'Splitwise', $curve2 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc 3 title 'Phasor'
