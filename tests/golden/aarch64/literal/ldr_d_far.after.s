	str	x16, [sp, -16]!
	adrp	x16, site+0x1234
	add	x16, x16, :lo12:site+0x1234
	ldr	d5, [x16]
	ldr	x16, [sp], 16
