# A displacement counts from the end of the instruction, behind the immediate.
	cmpq	$0x12345678, data(%rip)
	ret
