	adr	x3, site+0x1234
