# Two branches; the second one leads back to the site, which is entered again.
here:
	nop
	jne	here + 0x20
	jg	here
	nop
