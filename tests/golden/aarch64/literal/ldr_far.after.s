	adrp	x1, site+0x1238
	add	x1, x1, :lo12:site+0x1238
	ldr	x1, [x1]
