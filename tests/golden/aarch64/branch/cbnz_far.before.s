# at: 401000 4401000
	cbnz	x7, site+0x100
