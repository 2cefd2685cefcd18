	adrp	x29, data
