	cmpq	$0x12345678, data(%rip)
