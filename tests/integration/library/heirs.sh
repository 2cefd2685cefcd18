#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What forked children open by themselves is traced, in streams (heirs.c) and by the commands: by
# its names, with the child's number, and whatever others have opened meanwhile.
. tests/integration/lib.sh
need cc jq
need_attach

export LD_LIBRARY_PATH=$BUILD
cc -std=c99 -pedantic -Wall -Wextra -Werror -Ilibprobe/include/probe/standard \
	tests/integration/library/heirs.c -o "$SCRATCH/heirs" -L"$BUILD" -lprobe_trace || die "heirs.c"

wanted='after the grandchild 1
at once 61
beside 0 1
beside 1 1
first 1
grandchild 1
killed 1
of both 4
orphan 1
parent 1
parent, later 1
second 1'
for whose in self other; do
	for log in '' "$SCRATCH/$whose.log"; do
		timeout "$TEST_SECONDS" "$SCRATCH/heirs" $whose ${log:+"$log"} >"$SCRATCH/stdout"
		same "$whose $log: status" "$?" 0
		same "$whose $log" "$(sort "$SCRATCH/stdout")" "$wanted"
	done
done

# ---- A child that outlives the trace, and a controller that is stopped ----------------------

cat >"$SCRATCH/child.c" <<-'C'
	#include <fcntl.h>
	#include <probe/posix_trace.h>
	#include <stdio.h>
	#include <sys/wait.h>
	#include <unistd.h>

	/* For each letter of the child's input, opens a name and hits it; answers with the letter. */
	int main(void)
	{
		trace_event_id_t id;
		char name[2] = "";
		pid_t pid = fork();

		if (pid) {
			printf("%d\n", (int)pid);
			fflush(stdout);
			close(0);
			return waitpid(pid, NULL, 0) != pid;
		}
		while (read(0, name, 1) == 1) {
			if (posix_trace_eventid_open(name, &id))
				return 1;
			posix_trace_event(id, name, 1);
			if (write(1, name, 1) != 1)
				return 1;
		}
		return 0;
	}
	C
cc -Ilibprobe/include "$SCRATCH/child.c" -o "$SCRATCH/child" -L"$BUILD" -lprobe_events || die "child.c"

# pass LETTER: the child hits this name
pass()
{
	local answer
	printf '%s' "$1" >&"$in"
	read -r -N 1 -t "$TEST_SECONDS" answer <&"$out" || die "the child does not answer"
	[ "$answer" = "$1" ] || die "the child answers $answer"
}

coproc CHILD { exec "$PROBECTL" trace -c --follow -o "$SCRATCH/counts" 'posix_trace:?' -- \
	"$SCRATCH/child" 2>"$SCRATCH/err"; }
in=${CHILD[1]} out=${CHILD[0]} tracer=$CHILD_PID
on_exit "end_process $tracer"
read -r -t "$TEST_SECONDS" child <&"$out" || die "no child: $(cat "$SCRATCH/err")"
pass a
pass b
pass a
# The thread waits for two seconds. Then its name is not on until the controller looks again.
kill -STOP "$tracer"
pass c
kill -CONT "$tracer"
wait_on "$child" posix_trace:c
pass c
pass a
kill -INT "$tracer"
until grep -q '^posix_trace:a' "$SCRATCH/counts"; do
	pause
done
same "counts" "$(awk '/^posix_trace:[abc]/ {print $1, $2}' "$SCRATCH/counts" | sort | paste -sd,)" \
	"posix_trace:a 3,posix_trace:b 1,posix_trace:c 1"
grep -q 'hits in libraries that it opened while probectl was stopped' "$SCRATCH/err" || fail "the stop is not told"
until [ "$("$PROBECTL" status -p "$child" 2>&1)" = "probectl: no probes are enabled (-a shows all there are)" ]; do
	pause
done
pass a
pass d
finish
