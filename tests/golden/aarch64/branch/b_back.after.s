	b	site
