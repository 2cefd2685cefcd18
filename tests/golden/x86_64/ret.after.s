	nop
	add	$8, %rsp
