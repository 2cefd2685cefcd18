	adrp	x3, site+0x1235
	add	x3, x3, :lo12:site+0x1235
