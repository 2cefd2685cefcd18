# at: 401000 4401000
	ldr	x1, site+0x1238
