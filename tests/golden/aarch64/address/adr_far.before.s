# at: 401000 4401000
	adr	x3, site+0x1235
