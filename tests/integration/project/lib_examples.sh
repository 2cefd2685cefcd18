# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Runs the commands of probectl that documents show, as they stand there, and expects that each
# succeeds. Sourced by tests. Process ids, and the placeholders PROVIDER and NAME, are replaced by
# those of programs that run here: a PostgreSQL server under pgbench, a JVM, programs in Python, PHP
# and C++, and `shop`, with probes of its own. What would run on is interrupted (SIGINT) after a
# second; a program that a command starts ends by itself.

. tests/integration/lib.sh

# ---- Programs ----------------------------------------------------------------------

# background COMMAND...: until the test ends; its pid is in $!
background()
{
	"$@" >"$SCRATCH/background.log" 2>&1 </dev/null &
	on_exit "end_process $!"
}

# python_programs: app.py, shop.py and so on end by themselves; with an argument they do not
python_programs()
{
	local name

	for name in app program words shop server; do
		cat >"$name.py" <<'PYTHON'
import gc, sys, time

def price(item):
    return len(item) * 10

def score(word):
    return sum(map(ord, word))

def total(basket):
    return sum(price(item) + score(item) for item in basket)

while True:
    total(["apple", "fig", "pear"])
    gc.collect()
    if len(sys.argv) == 1:
        break
    time.sleep(0.01)
PYTHON
	done
	[ -x /usr/bin/python3.11 ] || return 0
	ln -sf /usr/bin/python3.11 "$SCRATCH/bin/python3.11" # not another one, without probes
	background /usr/bin/python3.11 -I -S app.py forever
	pids[python]=$!
}

java_programs()
{
	[ -n "$(command -v java)" ] && [ -n "$(command -v javac)" ] || return 0
	cat >Main.java <<'JAVA'
public class Main {
	static Object kept;

	static int work(int i) {
		kept = new byte[100000];
		return i + 1;
	}

	public static void main(String[] arguments) throws InterruptedException {
		for (int i = 0; i < 2000 || arguments.length > 0; i++) {
			work(i);
			if (arguments.length > 0)
				Thread.sleep(1);
		}
		System.gc();
	}
}
JAVA
	javac Main.java && jar cfe app.jar Main Main.class || die "the program in Java"
	background java -XX:+ExtendedDTraceProbes -Xmx64m Main forever
	pids[hotspot]=$!
}

other_programs()
{
	mkdir -p web
	echo '<?php function f() { return 1; } f(); echo "x";' | tee web/index.php >app.php
	echo '5.times { [1, 2].map(&:to_s) }' >app.rb
	cat >throws.cc <<'CC'
#include <stdexcept>
#include <unistd.h>

static void find(int item)
{
	if (item >= 0)
		throw std::out_of_range("missing");
}

int main(int argc, char **)
{
	do {
		for (int i = 0; i < 3; i++) {
			try {
				find(i);
			} catch (const std::exception &) {
			}
		}
		usleep(10000);
	} while (argc > 1);
}
CC
	if has_probes "$(command -v php8.2)"; then
		background php8.2 -n -S 127.0.0.1:0 -t web
		pids[php]=$!
	fi
	if [ -n "$(command -v g++)" ] && g++ -O1 -o throws throws.cc; then
		cp throws program
		background ./throws forever
		pids[libstdcxx]=$!
	fi
}

own_program()
{
	cat >shop.c <<'C'
#include <stdint.h>
#include <sys/sdt.h>
#include <unistd.h>

struct item {
	char text[16];
	uint32_t kind;
	const char *name;
};

int main(void)
{
	static struct item item = {"apple", 7, "fruit"};

	for (int i = 0;; i++) {
		STAP_PROBE2(shop, order__start, i, i % 4);
		STAP_PROBE1(shop, job__start, i);
		STAP_PROBE3(shop, item, &item, i & 0xff, 3);
		STAP_PROBE3(otel_memory, alloc, &item, 100, 1000);
		STAP_PROBE2(pool, get, 100, &item);
		usleep(1000);
		STAP_PROBE1(shop, job__done, i);
		STAP_PROBE1(shop, order__done, i);
		STAP_PROBE1(otel_memory, free, &item);
		STAP_PROBE1(pool, put, &item);
	}
}
C
	${CC:-cc} -o shop shop.c 2>"$SCRATCH/cc.err" || die "cannot compile: $(head -2 "$SCRATCH/cc.err")"
	background ./shop
	pids[shop]=$!
}

postgres_load()
{
	[ -x "$pg_bin/postgres" ] || return 0
	# Commands with --exe must not meet the servers of other tests.
	PG_COPY=1 pg_start
	pg_bench_init 1
	background "$pg_bin/pgbench" -n -c 2 -R 200 -T 100000
	while [ "$(pg_backends | wc -l)" -lt 2 ]; do
		pause
	done
	pids[postgresql]=$(pg_backends | paste -sd,)
}

# examples_start: everything that the commands need, in the working folder $SCRATCH/examples
examples_start()
{
	need_attach
	sources=$PWD
	declare -gA pids=()
	mkdir -p "$SCRATCH/bin" "$SCRATCH/examples"
	# What would go on until Ctrl-C ends soon after it has begun.
	cat >"$SCRATCH/bin/probectl" <<SH
#!/bin/sh
case "\$* " in
*" -- "*) ;;
trace* | record* | top*) set -- "\$@" -d 0.3 ;;
esac
exec timeout -s INT -k 20 --preserve-status 60 "$PROBECTL" "\$@"
SH
	chmod 755 "$SCRATCH/bin/probectl"
	export PATH=$SCRATCH/bin:$PATH
	[ -n "$(command -v php)" ] || ln -sf "$(command -v php8.2)" "$SCRATCH/bin/php"
	cd "$SCRATCH/examples" || die "no folder for the examples"
	postgres_load
	python_programs
	java_programs
	other_programs
	own_program
	records
	examples_clear
}

# ---- Commands ----------------------------------------------------------------------

# The program that a command is about: by a provider, or a program that it starts.
provider_of()
{
	local name

	for name in postgresql hotspot python php libstdcxx libvirt ruby shop; do
		[[ $1 != *$name* ]] || { echo "$name"; return; }
	done
	case $1 in
	*query__start*) echo postgresql ;;
	*PROVIDER* | *otel_memory:* | *pool:*) echo shop ;;
	*) echo "${last_provider-postgresql}" ;;
	esac
}

# Process ids and placeholders become those of here.
here()
{
	local command=$1 own=${pids[$2]-} first

	first=${own%%,*}
	[ "$2" != postgresql ] || [[ $command != *--@(children|tree)* ]] || first=$pg_pid
	# Two ids are of two processes; the server's children are the sessions.
	sed -E "s/(-p|--children) (PID|[0-9]+),[0-9]+/\1 $own/g; s/(-p) (PID|[0-9]+)\b/\1 $first/g
		s/--(children|tree) (PID|[0-9]+)\b/--\1 ${pg_pid-0}/g
		s#$pg_bin/postgres#${pg_program-}#g
		s/PROVIDER:NAME/shop:item/g; s/PROVIDER:BEGIN/shop:order__start/g
		s/PROVIDER:END/shop:order__done/g; s/PROVIDER/shop/g
		s#/dev/shm/(PID|[0-9]+)\.probectl#/dev/shm/$first.probectl#g" <<<"$command"
}

# Is there what the command needs? Each program may be missing on this machine.
lacks()
{
	case $1 in
	ruby) [ -z "$(command -v ruby)" ] ;;
	libvirt) [ -z "$(command -v virsh)" ] ;;
	*) [ -z "${pids[$1]-}" ] ;;
	esac
}

# example COMMAND: runs it; its output is in $SCRATCH/answer
example()
{
	local provider command status

	provider=$(provider_of "$1")
	last_provider=$provider
	if lacks "$provider"; then
		echo "note: no $provider: $1"
		return
	fi
	command=$(here "$1" "$provider")
	echo "\$ $command"
	(set -o pipefail && eval "$command") >"$SCRATCH/answer" 2>"$SCRATCH/answer.err" </dev/null
	status=$?
	head -n 4 "$SCRATCH/answer"
	keep_answer
	[ "$status" = 0 ] || fail "$1: status $status: $(head -3 "$SCRATCH/answer.err")"
	! grep 'matched no probe' "$SCRATCH/answer.err" || fail "$1: it is about nothing"
	examples=$((${examples-0} + 1))
}

# records: those that documents show reports of, without having made them before
records()
{
	local name

	mkdir "$SCRATCH/records"
	for name in monday tuesday last-week; do
		[ -n "${pids[postgresql]-}" ] || break
		"$PROBECTL" record -q -d 0.3 -o "$SCRATCH/records/$name.ctf" -p "${pids[postgresql]}" \
			'postgresql:query__start(str(arg0))' postgresql:query__done || die "no record"
	done
	"$PROBECTL" record -q -d 0.3 -o "$SCRATCH/records/jobs.ctf" -p "${pids[shop]}" 'shop:job__*' ||
		die "no record of jobs"
}

# Nothing stays on after a document, and no file of its.
examples_clear()
{
	local pid all=${pids[*]}

	rm -rf ./*.ctf
	cp -r "$SCRATCH"/records/* . || die "no records"
	for pid in ${all//,/ }; do
		"$PROBECTL" disable -q --force -p "$pid" '*:*' 2>/dev/null
		rm -f "/dev/shm/$pid.probectl"
	done
}

# examples_run PATTERN DOCUMENT...: all commands except those that match the pattern
examples_run()
{
	local except=$1 document heading command

	shift
	while IFS=$'\t' read -r document heading command; do
		# shellcheck disable=SC2254 # a pattern
		[[ ! "$document: $heading: $command" =~ $except ]] || continue
		[ "$document" = "${last_document-}" ] || examples_clear
		last_document=$document
		example "$command"
	done < <(cd "$sources" && "$python" tests/integration/project/examples.py "$@")
	examples_clear
}
