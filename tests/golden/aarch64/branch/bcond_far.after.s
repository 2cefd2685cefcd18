	b.eq	.+8
	b	site+0x100
