# at: 401000 4401000
	ldrsw	x16, site-0x1234
