# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Runs the commands of a document, docs/one-liners.md unless a test names another, as they stand
# there, but for PID. Sourced by tests.
#
# An answer is below its question, a heading: the lines of an indented block that begin with `$`,
# with what `\` continues.

. tests/integration/lib.sh

document=${document-$PWD/docs/one-liners.md}
mkdir -p "$SCRATCH/bin"
ln -sf "$PROBECTL" "$SCRATCH/bin/probectl"
export PATH=$SCRATCH/bin:$PATH

# commands_of QUESTION: the commands of its answer, one a line; a heading may have a number
commands_of()
{
	awk -v question="$1" '
		/^##/ { sub(/^#+ ([0-9]+\. )?/, ""); here = $0 == question; next }
		here && (continued || /^    \$ /) {
			sub(/^    (\$ )?/, "")
			continued = sub(/\\$/, "")
			printf "%s%s", $0, continued ? " " : "\n"
		}' "$document"
}

# take QUESTION PID [NUMBER]: sets `command_line` to the NUMBER-th command, about the process
take()
{
	command_line=$(commands_of "$1" | sed -n "${3-1}p")
	[ -n "$command_line" ] || die "the document has no answer to '$1'"
	command_line=${command_line//PID/$2}
	echo "\$ $command_line"
}

# answer QUESTION [PID [NUMBER]]: runs a command that ends by itself, its output in $SCRATCH/answer
answer()
{
	take "$1" "${2-}" "${3-1}"
	(cd "$SCRATCH" && eval "$command_line") >"$SCRATCH/answer" 2>"$SCRATCH/answer.err" ||
		fail "status $?: $(head -3 "$SCRATCH/answer.err")"
	head -n 20 "$SCRATCH/answer"
	keep_answer
}

# answer_start QUESTION PID [NUMBER]: in the background, until answer_stop
answer_start()
{
	take "$@"
	anew answer
	(cd "$SCRATCH" && eval "exec env --default-signal=INT $command_line") \
		>"$SCRATCH/answer" 2>"$SCRATCH/answer.err" </dev/null &
	tracer_pid=$!
	on_exit "end_process $tracer_pid"
	wait_tracing answer
}
answer_stop()
{
	trace_stop answer
	head -n 20 "$SCRATCH/answer"
	keep_answer
}

# column COLUMN TEXT: of the table's rows that end with TEXT, this column, counted from 1
column()
{
	awk -v column="$1" -v text="$2" '
		length($0) >= length(text) && substr($0, length($0) - length(text) + 1) == text {
			print $column
		}' "$SCRATCH/answer"
}

# milliseconds TIME: of "1.01s", "12.3ms", "40us", "7ns"
milliseconds()
{
	awk -v t="$1" 'BEGIN {
		u = t
		gsub(/[0-9.]/, "", u)
		f = u == "s" ? 1e3 : u == "ms" ? 1 : u == "us" ? 1e-3 : 1e-6
		print t * f
	}'
}

# between WHAT LEAST GOT MOST: numbers, or terms of awk
between()
{
	awk "BEGIN { exit !(($2) <= ($3) && ($3) <= ($4)) }" 2>/dev/null ||
		fail "$1: got '$3', wanted $2 to $4"
}
