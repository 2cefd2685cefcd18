	b	function
