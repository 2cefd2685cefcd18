# VEX: the displacement is where the ModRM byte says.
	nop
	vaddsd	data(%rip), %xmm1, %xmm2
	ret
