	adrp	x16, site-0x1234
	add	x16, x16, :lo12:site-0x1234
	ldrsw	x16, [x16]
