	tbnz	x7, 33, .+8
	b	site+0x100
