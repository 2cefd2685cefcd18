C SPDX-License-Identifier: MIT
C Calls the Fortran entry points of pmtrace(3), and prints each result; with an argument, without
C pmtraceobs.
	program calls
	integer pmtracebegin, pmtraceend, pmtraceabort, pmtracepoint
	integer pmtraceobs, pmtracecounter, pmtracestate
	external pmtracebegin, pmtraceend, pmtraceabort, pmtracepoint
	external pmtraceobs, pmtracecounter, pmtracestate, pmtraceerrstr
	character*254 longest
	character*300 over
	character*8 tag
	character*60 message
	character*9 short
	integer code
	real*8 value

	longest = 'l'
	over = 'o'
	tag = 'padded'
	value = 148.5
	print *, 'state', pmtracestate(16)
	print *, 'begin', pmtracebegin('a')
	print *, 'begin', pmtracebegin('a')
	print *, 'end', pmtraceend('a')
	print *, 'end', pmtraceend('a')
	print *, 'begin', pmtracebegin('a')
	print *, 'abort', pmtraceabort('a')
	print *, 'abort', pmtraceabort('b')
C	A tag has its trailing blanks.
	print *, 'begin', pmtracebegin(tag)
	print *, 'end', pmtraceend('padded')
	print *, 'end', pmtraceend('padded  ')
	print *, 'empty', pmtracebegin('')
	print *, 'nul', pmtracepoint(char(0))
	print *, 'longest', pmtracebegin(longest), pmtraceend(longest)
	print *, 'over', pmtracebegin(over), pmtracepoint(over)
	print *, 'over', pmtracecounter(over, value)
	print *, 'point', pmtracepoint('p')
	print *, 'counter', pmtracecounter('c', value)
	if (iargc() .eq. 0) print *, 'obs', pmtraceobs('o', value)
	do code = -12012, -11999
	    call pmtraceerrstr(code, message)
	    call pmtraceerrstr(code, short)
	    print *, code, '[', message, '][', short, ']'
	end do
	print *, 'state', pmtracestate(0)
	end
