	tbz	x7, 33, site+0x100
