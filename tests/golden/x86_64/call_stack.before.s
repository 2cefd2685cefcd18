# The operand is read after the push: 8 bytes higher, always with 32 bits.
	nop
	call	*0x18(%rsp)
