# An operand without %rsp is left alone.
	nop
	call	*0x100(%r12,%rax,8)
