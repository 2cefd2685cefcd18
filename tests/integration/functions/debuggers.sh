#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gdb breaks at functions that are traced: programs with and without line tables, optimised and not,
# before and after the functions are enabled. No breakpoint is missed, no result wrong, and in the
# end the text equals the file.
. tests/integration/lib.sh
need gdb jq
need_attach

rounds=3
integration=$(realpath "$integration")
cd "$SCRATCH" || die "no folder"
cat >program.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define F __attribute__((noinline, noclone))

volatile long sink;

F long over(long n) { return sink + n; }
F void empty(void)
{
	__asm__ volatile("");
}
F int one(void)
{
	return 1;
}
F int small(int x)
{
	return x + 1;
}
F long looped(void)
{
	do {
		sink += 3;
	} while (sink % 5);
	return sink;
}
F long waits(void)
{
	while (sink % 7)
		sink++;
	return sink;
}
F double half(double x)
{
	return x / 2 + sink;
}
F int many(int a, int b, int c, int d, int e, int f, int g, int h)
{
	return a - b + c - d + e - f + g * h;
}
F size_t local(const char *text)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s!", text);
	return strlen(copy);
}
F long calls(void)
{
	long sum = one();

	empty();
	return sum + small(one()) + looped();
}
F long conditional(long n)
{
	if (n & 1)
		return small((int)n);
	return n * 3;
}
F long nested(long n)
{
	return n <= 0 ? sink & 1 : nested(n - 1) + 1;
}

int main(void)
{
	long rounds, sum;
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		rounds = atol(line + 3);
		sum = sink = 0;
		for (long i = 0; i < rounds; i++) {
			sum += calls() + waits() + (long)half((double)i) + conditional(i) +
				nested(3);
			sum += many(1, 2, 3, 4, 5, 6, 7, (int)i) + (long)local(line);
			empty();
		}
		sum += over(rounds);
		printf("sum %ld\n", sum);
	}
	return 0;
}
C
functions=(empty one small looped waits half many local calls conditional nested)

# write_gdb WHICH…: a script for gdb that counts the hits of functions until the program calls
# over(), and leaves
write_gdb()
{
	local name
	{
		echo 'break over'
		for name; do
			printf 'break %s\ncommands\nsilent\ncontinue\nend\n' "$name"
		done
		cat <<-'END'
			echo there\n
			shell touch there
			continue
			info breakpoints
			delete
			detach
		END
	} >script
}

# gdb_on: a gdb that does so. Sets gdb_pid.
gdb_on()
{
	rm -f there
	gdb -nx -batch -iex 'set auto-load no' -iex 'set debuginfod enabled off' -p "$target_pid" \
		-x script >gdb.out 2>&1 </dev/null &
	gdb_pid=$!
	on_exit "end_process $gdb_pid"
	until [ -e there ]; do
		kill -0 "$gdb_pid" 2>/dev/null || skip "gdb cannot attach: $(tail -1 gdb.out)"
		pause
	done
}

# Hits of a breakpoint of the last gdb, as NAME HITS.
gdb_hits()
{
	awk '/^[0-9]+ +breakpoint/ { name = $0; sub(/.* in /, "", name)
			sub(/.*</, "", name); sub(/[(+> ].*/, "", name) }
		/already hit/ { print name, $4 }' gdb.out | sort
}

# Hits of the entries that are on, as NAME HITS.
our_hits()
{
	"$PROBECTL" status --json -p "$target_pid" |
		jq -r 'select(.refcount > 0 and (.name | endswith(":return") | not)) |
			"\(.name) \(.hits)"' | sort
}

# round_under_gdb WANTED: the program works under gdb, which goes then
round_under_gdb()
{
	gdb_on
	tell "go $rounds"
	wait "$gdb_pid"
	hear
	same "$program: the sum under gdb" "$answer" "$1"
	grep -qF 'Breakpoint 1, ' gdb.out || fail "$program: gdb has not stopped: $(cat gdb.out)"
}

# check OPTIONS: with a program that is compiled so
check()
{
	local options=$1 program wanted name

	program=program${options// /}
	# shellcheck disable=SC2086
	cc $options -o "$program" program.c || die "cannot build the program"
	start "./$program"
	ask "go $rounds"
	wanted=$answer
	save_state "$target_pid"

	# gdb alone counts; while it is there, nothing can be switched.
	write_gdb "${functions[@]}"
	gdb_on
	"$PROBECTL" enable -p "$target_pid" "fn:$program:local" 2>first.err && fail "$program: enabled under gdb"
	says first "is being traced by process $gdb_pid\|does not hold what the file holds"
	tell "go $rounds"
	wait "$gdb_pid"
	hear
	same "$program: the sum under gdb alone" "$answer" "$wanted"
	gdb_hits >alone
	same "$program: gdb's breakpoints" "$(cut -d' ' -f1 alone)" "$(printf '%s\n' over "${functions[@]}" | sort)"
	same_state "$target_pid"

	# What gdb leaves can be enabled, and gdb comes back.
	ctl enable --keep-going -p "$target_pid" "${functions[@]/#/fn:$program:}"
	ctl enable --keep-going -p "$target_pid" "fn:$program:*:return"
	ask "go $rounds"
	same "$program: the sum, traced" "$answer" "$wanted"
	our_hits >traced
	grep -q . traced || fail "$program: nothing was traced"
	same "$program: hits" "$(cat traced)" "$(join traced alone | awk '{ print $1, $2 }')"
	round_under_gdb "$wanted"
	same "$program: gdb's hits of what is traced" "$(gdb_hits)" "$(cat alone)"
	our_hits >both
	same "$program: hits beside gdb" "$(cat both)" "$(awk '{ print $1, 2 * $2 }' traced)"

	# Half of it goes; then gdb comes to the rest, and to what was restored.
	ctl disable -p "$target_pid" "fn:$program:[a-m]*" "fn:$program:[a-m]*:return"
	round_under_gdb "$wanted"
	same "$program: gdb's hits of the rest" "$(gdb_hits)" "$(cat alone)"
	ctl disable -p "$target_pid" "fn:$program:*" "fn:$program:*:return"
	ask "go $rounds"
	same "$program: the sum, then" "$answer" "$wanted"
	same_state "$target_pid"
	end_target
}

check "-O0 -g"
check "-O0"
check "-O2 -g"
check "-O0 -g -falign-functions=1"
in_all || finish
for options in "-O2" "-O1 -g -fcf-protection=full" "-Os -g" "-O0 -g -gdwarf-4" \
	"-O2 -fno-omit-frame-pointer -g" "-O2 -fno-omit-frame-pointer"; do
	check "$options"
done
finish
