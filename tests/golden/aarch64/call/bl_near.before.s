# at: 401000 441000
	bl	function
