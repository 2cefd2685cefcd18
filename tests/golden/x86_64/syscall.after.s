	mov	%edi, %ebx
	syscall
	movabs	$site + 4, %rcx
	nop
