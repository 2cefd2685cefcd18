# at: 401000 402000
	tbz	x7, 33, site+0x100
