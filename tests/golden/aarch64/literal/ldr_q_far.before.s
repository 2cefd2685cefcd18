# at: 401000 4401000
	ldr	q5, site+0x1234
