	ldr	q5, site+0x1234
