	nop
	test	%eax, %eax
	{disp32} je	site + 0x40
