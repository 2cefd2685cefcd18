# The epilogue of a function behind a probe.
	nop
	add	$8, %rsp
	ret
