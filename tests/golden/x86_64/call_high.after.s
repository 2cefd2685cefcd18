	nop
	.byte	0x68
	.long	0xb0001006
	movl	$0x7f12, 4(%rsp)
	{disp32} jmp	function
