# at: 401000 4401000
	cbz	w7, site+0x100
