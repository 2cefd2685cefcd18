	nop
	{disp32} jne	site + 0x20
	{disp32} jg	site
