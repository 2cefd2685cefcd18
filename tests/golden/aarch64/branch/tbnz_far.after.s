	tbz	w7, 3, .+8
	b	site+0x100
