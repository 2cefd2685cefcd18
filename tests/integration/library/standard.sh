#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# A program written for <trace.h> of the standard (standard.c) traces a child and itself. It is
# compiled with one -I and one -l, also statically.
. tests/integration/lib.sh
need cc jq
need_attach

flags=(-std=c99 -pedantic -Wall -Wextra -Werror -Ilibprobe/include/probe/standard)
export LD_LIBRARY_PATH=$BUILD
cc "${flags[@]}" tests/integration/library/standard.c -o "$SCRATCH/standard" -L"$BUILD" -lprobe_trace ||
	die "a program of the standard does not compile"

wanted='itself: posix_trace_start[528] my first event[4] posix_trace_filter[1056] posix_trace_stop[4]
log: posix_trace_start[528] logged[6] posix_trace_stop[4]
log: posix_trace_start[528] logged[6] posix_trace_stop[4]
child: posix_trace_start[528] alpha[3] alpha[3] posix_trace_unnamed_userevent[1] db:later(1)[1] posix_trace_stop[4]
types: 14
filtered: posix_trace_start[528] alpha[3] alpha[3] posix_trace_stop[4]
inherited: posix_trace_start[528] alpha[6]
log: posix_trace_start[528] alpha[3] posix_trace_stop[4]
log: posix_trace_start[528] alpha[3] posix_trace_stop[4]'

# run PROGRAM: its logs are in a folder of this name
run()
{
	mkdir "$SCRATCH/$1.logs"
	same "what $1 prints" "$(timeout "$TEST_SECONDS" "$SCRATCH/$1" "$SCRATCH/$1.logs" 2>&1)" "$wanted"
}
run standard

# A log is a record, which the file names.
log=$SCRATCH/standard.logs/$(sed 's/.* //' "$SCRATCH/standard.logs/log.itself")
same "the log of a stream, exported" \
	"$("$PROBECTL" export -F json "$log" | jq -r '.name + " " + (.args[0] // "" | tostring)' |
		grep -v flush | paste -sd,)" "start ,logged 6c6f67676564,stop 0"

read -ra libraries <<<"$(pkg-config --static --libs libelf) -liberty -ldl -lpthread"
cc "${flags[@]}" -static tests/integration/library/standard.c -o "$SCRATCH/static" -L"$BUILD" \
	-lprobe_trace -lprobe "${libraries[@]}" 2>"$SCRATCH/static.err" ||
	die "no static program: $(head -3 "$SCRATCH/static.err")"
run static

# The process is killed: its copy ends the log, and itself.
cat >"$SCRATCH/killed.c" <<-'C'
	#include <fcntl.h>
	#include <signal.h>
	#include <stdio.h>
	#include <trace.h>
	#include <unistd.h>

	int main(int argc, char **argv)
	{
		int fd = open(argv[argc - 1], O_RDWR | O_CREAT | O_TRUNC, 0600);
		trace_event_id_t event;
		trace_id_t trid;

		if (posix_trace_eventid_open("last words", &event) ||
			posix_trace_create_withlog(0, NULL, fd, &trid) || posix_trace_start(trid))
			return 1;
		posix_trace_event(event, "bye", 3);
		return raise(SIGKILL);
	}
C
cc -Ilibprobe/include/probe/standard "$SCRATCH/killed.c" -o "$SCRATCH/killed" -L"$BUILD" -lprobe_trace ||
	die "killed.c"
"$SCRATCH/killed" "$SCRATCH/killed.log" 2>"$SCRATCH/null"
same "the status of a process that is killed" "$?" 137
log=$SCRATCH/$(sed 's/.* //' "$SCRATCH/killed.log")
names()
{
	"$PROBECTL" export -F json "$log" 2>"$SCRATCH/null" | jq -r .name | grep -v flush | paste -sd,
}
until [ "$(names)" = "start,last words,stop" ]; do
	pause
done
finish
