package core

type Tested struct{ a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q int }
