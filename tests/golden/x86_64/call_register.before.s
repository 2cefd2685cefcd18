# notrack stays.
	nop
	nop
	notrack call *%rax
