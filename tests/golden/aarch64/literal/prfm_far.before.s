# at: 401000 4401000
	prfm	pldl1keep, site+0x1234
