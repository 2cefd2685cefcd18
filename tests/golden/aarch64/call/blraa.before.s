# at: 401000 441000
	blraa	x8, sp
