	adr	x30, site+4
	br	x8
