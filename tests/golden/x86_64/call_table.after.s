	nop
	.byte	0x68
	.long	site + 9
	jmp	*0x100(%r12,%rax,8)
