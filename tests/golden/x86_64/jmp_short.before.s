# A jump ends the code: nothing behind it is displaced.
here:
	nop
	nop
	nop
	jmp	here + 0x30
	ud2
