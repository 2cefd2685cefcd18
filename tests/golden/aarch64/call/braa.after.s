	braa	x8, x9
