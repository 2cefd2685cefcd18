#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each call that can make the controller wait must be in the table of docs/reliability.md ("Waits"),
# with its limit, and the table must not name other calls. Prints FILE: CALL for each difference.
# The names are those of system calls and libc functions that can sleep; functions of ours that wait
# use these.
. tests/lint/lib.sh
need perl
set +e # the exit status of the last awk is the result

calls='waitid|waitpid|wait4|futex|flock|lockf|connect|accept4?|recv|recvmsg|recvfrom|send|sendmsg'
calls+='|sendto|poll|ppoll|select|pselect|epoll_p?wait|nanosleep|clock_nanosleep|usleep|sleep'
calls+='|sigtimedwait|sigwaitinfo|sigwait|sigsuspend|pause|pthread_join|pthread_cond_(timed)?wait'
calls+='|pthread_mutex_lock|pthread_rwlock_(rd|wr)lock|sem_(timed)?wait|read|readv|write|writev'
calls+='|process_vm_(read|write)v|fsync|fdatasync|getpwnam|getgrgid|getaddrinfo|control_wait'

# Comments and strings are removed. A name after a dot is a struct's member, not a function.
sources '*.c' | grep -E '^(cli|libprobe|elf|arch)/' |
	xargs perl -0 -ne '
		s{/\*.*?\*/}{}gs;
		s{"(\\.|[^"\\\n])*"}{}g;
		while (/(?<![\w.>])('"$calls"')\s*\(/g) { print "$ARGV: $1\n" }' |
	sort -u >"$SCRATCH/there"

# A row: | `file` `file` | `call` `call` | what it waits for | its limit |
# Each file of a row makes at least one of its calls, and at least one file makes each call.
awk -F'|' -v list='docs/reliability.md: "Waits"' '
	function complain(text) { print text; bad = 1 }
	FILENAME != "docs/reliability.md" { there[$0] = 1; next }
	/^## / { inside = $0 == "## Waits" }
	inside && /^\| `/ {
		files = split($2, file, "`")
		calls = split($3, call, "`")
		split("", used)
		for (i = 2; i <= files; i += 2)
			for (k = 2; k <= calls; k += 2)
				if (file[i] ": " call[k] in there) {
					used[file[i]] = used[call[k]] = 1
					listed[file[i] ": " call[k]] = 1
				}
		for (i = 2; i <= files; i += 2)
			if (!(file[i] in used))
				complain(list " has " file[i] ", which does not call " $3)
		for (k = 2; k <= calls; k += 2)
			if (!(call[k] in used))
				complain(list " has " call[k] ", which is not called by " $2)
	}
	END {
		for (wait in there)
			if (!(wait in listed))
				complain(wait ": not in the table of docs/reliability.md, \"Waits\"")
		exit bad
	}' "$SCRATCH/there" docs/reliability.md | sort
exit "${PIPESTATUS[0]}"
