	nop
	nop
	.byte	0x68
	.long	site + 5
	notrack jmp *%rax
