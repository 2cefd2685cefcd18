	adr	x30, site+4
	b	function
