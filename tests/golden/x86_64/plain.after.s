	nop
	push	%rbp
	mov	%rsp, %rbp
