	cbz	x7, .+8
	b	site+0x100
