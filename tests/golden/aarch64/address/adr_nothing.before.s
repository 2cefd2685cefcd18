# at: 401000 4401000
	adr	xzr, site+0x1234
