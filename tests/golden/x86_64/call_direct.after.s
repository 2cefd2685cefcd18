	nop
	.byte	0x68		# pushq $site + 6, always with 32 bits
	.long	site + 6
	{disp32} jmp	function
