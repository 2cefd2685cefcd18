	adrp	x30, site+0x1234
	add	x30, x30, :lo12:site+0x1234
	ldr	w30, [x30]
