	nop
	lea	data(%rip), %rdi
