	adr	x30, site+4
	brabz	x8
