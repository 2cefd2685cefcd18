	.byte	0x68
	.long	site + 6
	jmp	*data(%rip)
