# at: 401000 4401000
	ldr	d5, site+0x1234
