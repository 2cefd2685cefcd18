# A short branch does not reach from the stub.
here:
	nop
	test	%eax, %eax
	je	here + 0x40
	nop
