# at: 401000 4401000
	tbnz	w7, 3, site+0x100
