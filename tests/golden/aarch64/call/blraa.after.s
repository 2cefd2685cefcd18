	adr	x30, site+4
	braa	x8, sp
