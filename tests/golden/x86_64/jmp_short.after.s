	nop
	nop
	nop
	{disp32} jmp	site + 0x30
