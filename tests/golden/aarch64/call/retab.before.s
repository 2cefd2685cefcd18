# at: 401000 4401000
	retab
