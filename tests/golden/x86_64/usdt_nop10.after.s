	nop
	nopw	%cs:0(%rax,%rax,1)
