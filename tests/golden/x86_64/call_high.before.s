# at: 0x7f12b0001000 0x7f12b0101000
# Above 2 GiB the high half is stored behind the push; no flag, no register changes.
	nop
	call	function
