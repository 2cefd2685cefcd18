# The same addresses, named from elsewhere; an immediate stands behind the displacement.
	nop
	lea	data(%rip), %rdi
