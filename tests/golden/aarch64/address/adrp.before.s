# at: 401000 4401000
	adrp	x29, data
