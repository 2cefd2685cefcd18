	nop
	.byte	0x68
	.long	site + 5
	{disp32} jmp	*0x20(%rsp)
