	adrp	x30, site+4
	add	x30, x30, :lo12:site+4
	b	function
