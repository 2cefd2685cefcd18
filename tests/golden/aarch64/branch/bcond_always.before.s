# at: 401000 4401000
	b.al	site+0x100
