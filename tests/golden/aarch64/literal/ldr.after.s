	ldr	x1, site+0x1238
