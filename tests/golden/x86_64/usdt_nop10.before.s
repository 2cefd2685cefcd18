# A long nop behind the site is moved like anything else.
	nop
	nopw	%cs:0(%rax,%rax,1)
	ret
