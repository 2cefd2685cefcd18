# at: 401000 4401000
	b.ne	site+0x100
