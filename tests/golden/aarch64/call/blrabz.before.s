# at: 401000 441000
	blrabz	x8
