# A call through the GOT.
	call	*data(%rip)
	nop
