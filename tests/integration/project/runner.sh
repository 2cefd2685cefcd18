#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/run.sh: what it counts, prints and returns, on tests made for this.
set -u
unset RUN_AS_USER
mkdir -p "$SCRATCH/tests/integration/library" "$SCRATCH/tests/golden"
cp tests/run.sh "$SCRATCH/tests/run.sh"
cd "$SCRATCH" || exit 1

# a_test PATH COMMANDS
a_test()
{
	printf '%s\n' "$2" >"tests/$1"
}

# expect STATUS LAST_LINE ARGUMENTS...: leaves the output in ./output
expect()
{
	local status=$1 last=$2 got

	shift 2
	bash tests/run.sh "$@" >output 2>&1
	got=$?
	if [ "$got" != "$status" ] || [ "$(tail -n 1 output)" != "$last" ]; then
		echo "tests/run.sh $*: status $got, wanted $status and '$last', output:"
		cat output
		exit 1
	fi
}

# prints LINE: the output contains it
prints()
{
	grep -qxE "$1" output || {
		echo "no line '$1' in:"
		cat output
		exit 1
	}
}

expect 1 '0 passed, 0 failed, 0 skipped' unit golden integration
expect 2 "tests/run.sh: 'nonsense' is neither a kind of tests, nor a test, nor a path below tests/" nonsense

a_test integration/skips.sh 'echo out; echo; echo "no such thing here"; echo; exit 77'
expect 1 '0 passed, 0 failed, 1 skipped' integration
prints 'skip  integration/skips: no such thing here'
prints '  integration/skips: no such thing here'

# shellcheck disable=SC2016 # expanded by the test
a_test integration/good.sh '[ -d "$SCRATCH" ] && [ -n "$PROBECTL" ] && [ -n "$TARGETS" ] &&
	[ -w "$TMPDIR" ] && ! read -r line'
a_test integration/lib.sh 'exit 1'
expect 0 '1 passed, 0 failed, 1 skipped' integration
prints 'ok    integration/good .*'

a_test golden/cases.sh 'echo "[ RUN      ] one"; echo "[  REASON  ] no luck"; echo "[  SKIPPED ] one"
	echo "[ RUN      ] two"; echo "[  SKIPPED ] two"
	echo "[  SKIPPED ] 2 test(s), listed below:"; echo "[  SKIPPED ] one"; echo "[  SKIPPED ] two"'
expect 0 '1 passed, 0 failed, 1 skipped' golden
prints '  golden/cases: one: no luck; two'

a_test integration/bad.sh 'echo the reason; exit 3'
a_test integration/slow.sh 'sleep 60'
expect 1 '0 passed, 1 failed, 0 skipped' -t 1 slow.sh
prints "FAIL  integration/slow \(status 124 after [0-9]* s, log: .*\)"
rm tests/integration/slow.sh
expect 1 '1 passed, 1 failed, 1 skipped' integration
prints 'FAIL  integration/bad \(status 3, log: .*\)'
prints '\| the reason'

expect 0 '1 passed, 0 failed, 0 skipped' tests/integration/good.sh

# Tests in folders below a kind's, which also have files of their own to source; a test by its name.
a_test integration/library/steps.sh 'exit 0'
a_test integration/library/lib_steps.sh 'exit 1'
expect 0 '1 passed, 0 failed, 0 skipped' tests/integration/library/steps.sh
prints 'ok    integration/library/steps .*'
expect 0 '1 passed, 0 failed, 0 skipped' steps.sh
# A folder.
expect 0 '1 passed, 0 failed, 0 skipped' tests/integration/library
expect 1 '2 passed, 1 failed, 1 skipped' tests/integration/
mkdir tests/integration/none
expect 2 "tests/run.sh: 'tests/integration/none/' is neither a kind of tests, nor a test, nor a path below tests/" \
	tests/integration/none
expect 2 "tests/run.sh: 'lib_steps.sh' is neither a kind of tests, nor a test, nor a path below tests/" \
	lib_steps.sh

# Whatever the folder for temporary files is called, tests get one that all their programs
# accept.
a_test integration/short.sh '[ ${#SCRATCH} -lt 70 ] && [[ $SCRATCH != *" "* ]] && [ -w "$SCRATCH" ]'
for TMPDIR in "$SCRATCH/a folder" "$SCRATCH/$(printf '%0100d' 0)"; do
	mkdir "$TMPDIR"
	export TMPDIR
	expect 0 '1 passed, 0 failed, 0 skipped' tests/integration/short.sh
done

# Other programs' variables make no difference.
a_test integration/clean.sh '[ -z "${http_proxy-}${JAVA_TOOL_OPTIONS-}${MAKEFLAGS-}${PGHOST-}${CDPATH-}" ] &&
	[ "$SEED $HOME" = "7 $SCRATCH" ]'
http_proxy=http://127.0.0.1:9 JAVA_TOOL_OPTIONS=-Xmx1g MAKEFLAGS=n PGHOST=/nowhere CDPATH=/ SEED=7 \
	expect 0 '1 passed, 0 failed, 0 skipped' tests/integration/clean.sh

# Neither do ignored signals. (32 and 33 are libc's own, and vary with posix_spawn(3).)
a_test integration/signals.sh \
	'[ $((0x$(sed -n "s/^SigIgn:[[:space:]]*//p" /proc/self/status) & 0x7fffffff)) = 0 ]'
env --ignore-signal=CHLD,HUP,INT,PIPE,QUIT bash tests/run.sh tests/integration/signals.sh >output ||
	{ cat output; exit 1; }
