# at: 401000 4401000
	ldr	s5, site+0x1234
