# The return address is the original one. Below 2 GiB the push holds all of it.
	nop
	call	function
	nop
