	nop
	vaddsd	data(%rip), %xmm1, %xmm2
