	add	x0, x1, x2, lsl 3
