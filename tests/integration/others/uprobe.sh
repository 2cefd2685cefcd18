#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
# Kernel uprobes and probectl at the same sites: both count every hit, whoever comes or leaves
# first, the program continues, and in the end its text equals the file.
. tests/integration/lib.sh
need jq

company=$TARGETS/company
[ -x "$company" ] || skip "$company is not built"
x86=
[ "$(uname -m)" != x86_64 ] || x86=yes
declare -A offset_of
while read -r name _ offset; do
	offset_of[$name]=$offset
done < <("$python" tests/integration/state.py sites "$company")
names=("${!offset_of[@]}")

# ---- The kernel's side ------------------------------------------------------------------

# kernel_on PID PATH OFFSET…: uprobes of perf_event_open(2)
kernel_uses=0
kernel_on()
{
	local in out said
	in=$SCRATCH/in.$((++kernel_uses))
	out=$SCRATCH/out.$kernel_uses
	mkfifo "$in" "$out"
	"$TARGETS/uprobe" "$@" <"$in" >"$out" &
	kernel_pid=$!
	exec {kernel_in}>"$in" {kernel_out}<"$out"
	IFS= read -r -t "$TEST_SECONDS" -u "$kernel_out" said || die "uprobe said nothing"
	[[ $said != no\ uprobes* ]] || skip "$said"
	same "the kernel" "$said" on
}

# In some emulators a breakpoint may be hit twice: what the kernel counts, without us, is
# then no measure.
is_exact=yes
same_counts()
{
	[ -z "$is_exact" ] || same "$@"
}

# kernel_counts: what each has counted so far
kernel_counts()
{
	local said
	echo >&"$kernel_in"
	IFS= read -r -t "$TEST_SECONDS" -u "$kernel_out" said || die "uprobe said nothing"
	echo "$said"
}

kernel_off()
{
	echo end >&"$kernel_in"
	exec {kernel_in}>&- {kernel_out}<&-
	wait "$kernel_pid" || fail "uprobe failed"
}

# times N WORD: WORD N times
times()
{
	local i
	for ((i = 0; i < $1; i++)); do
		printf '%s ' "$2"
	done | sed 's/ $//'
}

# The kernel may use either of the two nops of usdt.h. Older kernels refuse prefixed nops.
start "$company" 1
all_offsets=()
seconds=()
for name in ${x86:+company:both5 company:both10}; do
	seconds+=("$((offset_of[$name] + 1))")
done
for offset in "${offset_of[@]}" "${seconds[@]}"; do
	answer=$("$TARGETS/uprobe" -1 "$company" "$offset" </dev/null)
	case $answer in
	on) all_offsets+=("$offset") ;;
	*524*) echo "note: this kernel takes no uprobe at $offset" ;;
	*) skip "$answer" ;;
	esac
done
end_target

start "$company" 3
kernel_on -1 "$company" "${all_offsets[@]}"
for ((round = 1; round <= 4; round++)); do
	ask "go 500"
	[ "$(kernel_counts)" = "$(times ${#all_offsets[@]} $((1500 * round)))" ] || is_exact=
done
[ -n "$is_exact" ] || {
	[ "$(uname -m)" != x86_64 ] || fail "the kernel alone does not count each hit"
	echo "note: here the kernel alone does not count each hit once"
}
kernel_off
end_target

# ---- Ours ---------------------------------------------------------------------------------

ours_on()
{
	"$PROBECTL" enable -q -p "$target_pid" 'company:*' 2>"$SCRATCH/err" ||
		fail "enable: $(cat "$SCRATCH/err")"
}

ours_off()
{
	"$PROBECTL" disable -q -p "$target_pid" 'company:*' 2>"$SCRATCH/err" ||
		fail "disable: $(cat "$SCRATCH/err")"
}

# ours_count WHAT HITS: for each probe
ours_count()
{
	local hits
	hits=$("$PROBECTL" status --json -p "$target_pid" | jq .hits | sort -u | xargs)
	same "$1" "$hits" "$2"
}

# ours_count_of WHAT PROBE HITS
ours_count_of()
{
	same "$1: our hits" "$("$PROBECTL" status --json -p "$target_pid" |
		jq -r --arg name "$2" 'select("\(.provider):\(.name)" == $name) | .hits')" "$3"
}

hits_of()
{
	jq -r --arg name "$2" 'select("\(.provider):\(.name)" == $name) | .hits' "$1" 2>/dev/null
}

# ---- Either first, either last
# -----------------------------------------------------------------

threads=3
rounds=500
passed=$((threads * rounds))
count=${#all_offsets[@]}
for first in ours kernel; do
	for leaves in ours kernel; do
		start "$company" "$threads"
		save_state "$target_pid"
		what="$first first, $leaves leaves first"
		if [ "$first" = ours ]; then
			ours_on
			ask "go $rounds"
			kernel_on -1 "$company" "${all_offsets[@]}"
			hits="$((2 * passed)) $passed"
		else
			kernel_on -1 "$company" "${all_offsets[@]}"
			ask "go $rounds"
			ours_on
			hits="$passed $((2 * passed))"
		fi
		same "$what: one alone" "$answer" "passed $passed wrong 0"
		ask "go $rounds"
		same "$what: both" "$answer" "passed $passed wrong 0"
		ours_count "$what: our hits" "${hits% *}"
		same_counts "$what: the kernel's" "$(kernel_counts)" "$(times "$count" "${hits#* }")"
		if [ "$leaves" = ours ]; then
			ours_off
			ask "go $rounds"
			kernel_off
		else
			kernel_off
			ask "go $rounds"
			ours_count "$what: our hits alone" $((${hits% *} + passed))
			ours_off
		fi
		same "$what: one has left" "$answer" "passed $passed wrong 0"
		ask "go $rounds"
		same "$what: both have left" "$answer" "passed $passed wrong 0"
		same_state "$target_pid"
		end_target
	done
done

# ---- In a long nop, where there is no room for both
# ---------------------------------------------

# The kernel takes the whole nop, and gives it back, whether or not a thread passed. From then
# on our probe does not count.
for name in ${x86:+company:five company:both5}; do
	for offset in "${offset_of[$name]}" $((offset_of[$name] + 1)); do
		[ "$name $offset" = "company:five ${offset_of[$name]}" ] || [ "$name" = company:both5 ] ||
			continue
		for passes in 0 "$rounds"; do
			start "$company" "$threads"
			save_state "$target_pid"
			what="$name at $offset, $passes hits"
			"$PROBECTL" enable -q --plan nop -p "$target_pid" "$name" 2>"$SCRATCH/err" ||
				fail "$what: $(cat "$SCRATCH/err")"
			ask "go $rounds"
			ours_count_of "$what" "$name" "$passed"
			kernel_on -1 "$company" "$offset"
			[ "$passes" = 0 ] || {
				ask "go $rounds"
				same "$what: beside the kernel" "$answer" "passed $passed wrong 0"
				same_counts "$what: the kernel's hits" "$(kernel_counts)" "$passed"
			}
			kernel_off
			ask "go $rounds"
			same "$what: the kernel has left" "$answer" "passed $passed wrong 0"
			"$PROBECTL" disable -q -p "$target_pid" "$name" 2>/dev/null
			ask "go $rounds"
			same "$what: all have left" "$answer" "passed $passed wrong 0"
			same_state "$target_pid"
			end_target
		done
	done
done

# ---- Over a jump at the nop itself
# ---------------------------------------------------------------

# state_of WANTED WHAT: of the probe `name`, from status; its messages are in $SCRATCH/err
state_of()
{
	same "$2: state" "$("$PROBECTL" status --json -p "$target_pid" 2>"$SCRATCH/err" |
		jq -r --arg name "${name#*:}" 'select(.name == $name) | .state')" "$1"
}

# ended STATUS COMMAND...: probectl ends with it
ended()
{
	local wanted=$1
	shift
	timeout -k 5 "$TEST_SECONDS" "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	same "$what: $1: status" "$?" "$wanted"
}

# go WHAT: all threads pass, with correct results
go()
{
	ask "go $rounds"
	same "$what: $1" "$answer" "passed $passed wrong 0"
}

# one_of PLAN NAMES...: sets `name` to the first that allows a plan in this process
one_of()
{
	local plan=$1
	shift
	for name; do
		"$PROBECTL" enable -q --plan "$plan" -p "$target_pid" "$name" 2>/dev/null || continue
		"$PROBECTL" disable -q -p "$target_pid" "$name" || fail "$name: disable"
		return 0
	done
	return 1
}

# heard TEXT: waits for a message of the trace
heard()
{
	while :; do
		grep -qs "$1" "$SCRATCH/over.err" && return
		kill -0 "$tracer_pid" || die "$what: '$1' is not told: $(cat "$SCRATCH/over.err")"
		pause
	done
}

# over PLAN OFFSET: what is reported about `name`, with hits in between or without, whoever
# leaves first
over()
{
	local plan=$1 offset=$2 hits leaves
	for hits in 0 "$rounds"; do
		for leaves in kernel ours; do
			what="$name, $plan, $hits hits, $leaves leaves first"
			ended 0 enable -q -t count --plan "$plan" -p "$target_pid" "$name"
			go "ours"
			kernel_on "$target_pid" "$company" "$offset"
			[ "$hits" = 0 ] || go "the kernel over ours"
			state_of inconsistent "$what"
			grep -q "$name at 0x" "$SCRATCH/err" || fail "$what: status: $(cat "$SCRATCH/err")"
			ended 1 read -p "$target_pid"
			grep -q "$name at .*its hits are not counted" "$SCRATCH/err" || fail "$what: read: $(cat "$SCRATCH/err")"
			ended 1 repair -p "$target_pid"
			grep -q "$name at .*left as it is" "$SCRATCH/err" || fail "$what: repair: $(cat "$SCRATCH/err")"
			go "repair has left it"
			if [ "$leaves" = kernel ]; then
				kernel_off
				go "the kernel has left"
				state_of inconsistent "$what, alone"
				ended 0 repair -p "$target_pid"
				state_of on "$what, repaired"
				go "repaired"
				ended 0 disable -q -p "$target_pid" "$name"
			else
				ended 1 disable -q -p "$target_pid" "$name"
				grep -q "$name at .*left as it is" "$SCRATCH/err" ||
					fail "$what: disable: $(cat "$SCRATCH/err")"
				go "ours are off"
				kernel_off
				go "nobody is there"
				ended 0 repair -p "$target_pid"
			fi
			go "at the end"
			same "$what: what is mapped" "$(grep -c memfd:probectl "/proc/$target_pid/maps")" 0
			same_state "$target_pid"
		done
	done

	# The kernel comes first.
	what="$name, $plan, the kernel first"
	kernel_on "$target_pid" "$company" "$offset"
	for hits in 0 "$rounds"; do
		[ "$hits" = 0 ] || go "the kernel alone"
		"$PROBECTL" enable -q --plan "$plan" -p "$target_pid" "$name" 2>"$SCRATCH/err" &&
			fail "$what: patched over a breakpoint"
		grep -q "refused $name .*: " "$SCRATCH/err" || fail "$what: enable: $(cat "$SCRATCH/err")"
	done
	kernel_off
	go "refused"

	# It comes and goes during a trace, which reports it, and counts again once repaired.
	what="$name, $plan, during a trace"
	trace_start over -c --json -i 0.2 --plan "$plan" -p "$target_pid" "$name"
	wait_tracing over
	go "traced"
	kernel_on "$target_pid" "$company" "$offset"
	go "the kernel over it"
	heard "$name at .*its hits are not counted"
	kernel_off
	ended 0 repair -p "$target_pid"
	heard "$name at .*patched again"
	go "traced again"
	kill -INT "$tracer_pid"
	wait "$tracer_pid"
	same "$what: status" "$?" 1
	same "$what: hits" "$(hits_of "$SCRATCH/over.out" "$name" | tail -1)" $((2 * passed))
	same_state "$target_pid"
}

for plan in ${x86:+pun twin} nop; do
	start "$company" "$threads"
	save_state "$target_pid"
	names_of_plan=(company:five company:both5 company:both10)
	[ -n "$x86" ] || names_of_plan=(entered:site)
	if [ "$plan" != nop ]; then
		name=
		one_of "$plan" company:one company:end company:wide company:call || name=
		[ -n "$name" ] || [ "$plan" = pun ] || die "no site can be a $plan"
		names_of_plan=(${name:+"$name"})
	fi
	for name in "${names_of_plan[@]}"; do
		offset=${offset_of[$name]}
		[[ $name != company:both* ]] || offset=$((offset + 1)) # ours is in the second nop
		[[ " ${all_offsets[*]} " == *" $offset "* ]] && over "$plan" "$offset"
	done
	end_target
done

# Beside the first bytes of a jump after the nop: both count, whoever comes or leaves first.
start "$company" "$threads"
save_state "$target_pid"
[ -z "$x86" ] || one_of part company:one company:end company:wide company:call ||
	die "no part of a jump is possible"
offset=${offset_of[$name]}
for first in ${x86:+ours kernel}; do
	for leaves in ours kernel; do
		what="$name, part, $first first, $leaves leaves first"
		[ "$first" = ours ] || kernel_on -1 "$company" "$offset"
		ended 0 enable -q -t count --plan part -p "$target_pid" "$name"
		[ "$first" = kernel ] || kernel_on -1 "$company" "$offset"
		go "both"
		ours_count_of "$what" "$name" "$passed"
		same_counts "$what: the kernel's hits" "$(kernel_counts)" "$passed"
		[ "$leaves" = ours ] || kernel_off
		go "all, or we alone"
		ended 0 disable -q -p "$target_pid" "$name"
		go "ours are off"
		[ "$leaves" = kernel ] || kernel_off
		go "at the end"
		same_state "$target_pid"
	done
done
end_target

# Both come and go at random, while threads run and one is just about to patch.
start "$company" 2
save_state "$target_pid"
ask run
meeting=("${offset_of[company:one]}" "${offset_of[company:end]}")
if [ -n "$x86" ]; then
	meeting+=("${offset_of[company:five]}" "${offset_of[company:both5]}")
	all_probes=('company:*')
	plans=("pun,behind" "nop,pun" "twin,part" "part,nop")
else
	all_probes=('company:*' 'entered:*')
	meeting+=("${offset_of[entered:site]}")
	plans=("behind" "nop" "behind,nop" "nop,behind")
fi
(
	for ((round = 0; round < 30; round++)); do
		kernel_on "$target_pid" "$company" "${meeting[@]}"
		kernel_off
	done
) 2>/dev/null &
comes_and_goes=$!
while kill -0 "$comes_and_goes" 2>/dev/null; do
	plan=${plans[RANDOM % 4]}
	"$PROBECTL" enable -q --keep-going --plan "$plan" -p "$target_pid" "${all_probes[@]}" >/dev/null 2>&1
	"$PROBECTL" status -p "$target_pid" >/dev/null 2>&1
	[ $((RANDOM % 2)) = 0 ] || "$PROBECTL" repair -p "$target_pid" >/dev/null 2>&1
	"$PROBECTL" disable -q --force -p "$target_pid" "${all_probes[@]}" >/dev/null 2>&1
	check_alive "$target_pid"
done
wait "$comes_and_goes"
what="both as they like"
ask stop
[[ $answer == passed*'wrong 0' ]] || fail "$what: $answer"
"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>&1 || fail "$what: repair: $(cat "$SCRATCH/out")"
same "$what: what is mapped" "$(grep -c memfd:probectl "/proc/$target_pid/maps")" 0
same_state "$target_pid"
end_target

# ---- Both come and go while the threads run
# ----------------------------------------------------

start "$company" 2
save_state "$target_pid"
ask run
for ((round = 0; round < 10; round++)); do
	case $((RANDOM % 4)) in
	0)
		kernel_on -1 "$company" "${all_offsets[@]}"
		ours_on
		kernel_off
		ours_off
		;;
	1)
		ours_on
		kernel_on "$target_pid" "$company" "${all_offsets[@]}"
		ours_off
		kernel_off
		;;
	2)
		kernel_on -1 "$company" "${all_offsets[@]}"
		"$PROBECTL" trace -q -c -d 20ms -o /dev/null -p "$target_pid" 'company:*' ||
			fail "trace beside the kernel"
		kernel_off
		;;
	*)
		"$PROBECTL" trace -q -d 100ms -o /dev/null -p "$target_pid" 'company:*' &
		recorder=$!
		for again in 1 2 3; do
			kernel_on -1 "$company" "${all_offsets[@]}"
			kernel_off
		done
		wait "$recorder" || fail "the kernel comes and goes beside a trace"
		;;
	esac
	check_alive "$target_pid"
done
ask stop
[[ $answer == passed*'wrong 0' ]] || fail "after $round rounds: $answer"
same_state "$target_pid"
end_target

# ---- tracefs -------------------------------------------------------------------------------------

tracing=
for folder in /sys/kernel/tracing /sys/kernel/debug/tracing "$SCRATCH/tracing"; do
	if [ "$folder" = "$SCRATCH/tracing" ]; then
		mkdir "$folder"
		mount -t tracefs none "$folder" 2>/dev/null && on_exit "umount '$folder'"
	fi
	[ -w "$folder/uprobe_events" ] && tracing=$folder && break
done
if [ -n "$tracing" ]; then
	group=probectl_test_$$
	start "$company" "$threads"
	save_state "$target_pid"
	on_exit "echo 0 >'$tracing/events/$group/enable'; echo '-:$group/' >>'$tracing/uprobe_events'"
	for name in "${names[@]}"; do
		[[ " ${all_offsets[*]} " == *" ${offset_of[$name]} "* ]] || continue
		echo "p:$group/${name#*:} $company:${offset_of[$name]}" >>"$tracing/uprobe_events" ||
			fail "no event can be made"
	done
	trace_start tracefs -c --json -p "$target_pid" 'company:*'
	wait_tracing tracefs
	echo 1 >"$tracing/events/$group/enable"
	ask "go $rounds"
	same "tracefs: both" "$answer" "passed $passed wrong 0"
	same_counts "tracefs: the kernel's hits" \
		"$(awk -v file="$company" '$1 == file {print $3}' "$tracing/uprobe_profile" | sort -u)" \
		"$passed"
	echo 0 >"$tracing/events/$group/enable"
	trace_stop tracefs
	for name in "${names[@]}"; do
		[[ $name == company:* ]] || continue
		same "tracefs: $name" "$(hits_of "$SCRATCH/tracefs.out" "$name")" "$passed"
	done
	same_state "$target_pid"
	end_target
else
	echo "note: no tracefs can be mounted"
fi

# ---- Sites that we do not share -------------------------------------------------------------

# Inside instructions that would be moved: refused and reported; or another plan, if a certain
# one exists.
start "$company" 2
save_state "$target_pid"
behind=1
[ -n "$x86" ] || behind=4
for place in "one:$behind" "wide:$behind" ${x86:+five:5 both5:6 both10:11}; do
	name=company:${place%:*}
	kernel_on "$target_pid" "$company" $((offset_of[$name] + ${place#*:}))
	"$PROBECTL" enable -q --plan behind -p "$target_pid" "$name" >"$SCRATCH/out" 2>"$SCRATCH/err" &&
		fail "$name: patched over a breakpoint"
	grep -q "refused $name .*: the memory there does not hold what the file holds" "$SCRATCH/err" ||
		fail "$name: $(cat "$SCRATCH/err")"
	"$PROBECTL" trace -v -q -c --json --keep-going -d 50ms -o /dev/null -p "$target_pid" \
		'company:*' 2>"$SCRATCH/err" || [ $? = 1 ] || fail "$name: $(cat "$SCRATCH/err")"
	case $name in
	*:one | *:wide) ;;
	*) same "$name: refused" "$(grep 'refused company:' "$SCRATCH/err")" "" ;;
	esac
	grep 'refused company:' "$SCRATCH/err" | grep -v "refused $name " && fail "$name: others are refused"
	ask "go $rounds"
	same "$name: a uprobe where we would be" "$answer" "passed $((2 * rounds)) wrong 0"
	kernel_off
done
same_state "$target_pid"
end_target

# The entry points where we wait for libraries and programs.
loader=$(ldd "$company" | sed -n 's/^[[:space:]]*\(\/[^ ]*ld-linux[^ ]*\).*/\1/p')
libc=$(ldd "$company" | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')
at_entry()
{
	"$python" - "$@" <<'PYTHON'
import re, subprocess, sys
path, name = sys.argv[1:]
table = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True).stdout
address = next(int(line.split()[1], 16) for line in table.splitlines()
               if re.search(rf" {name}(@|$)", line))
loads = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True).stdout
for line in loads.splitlines():
    fields = line.split()
    if fields[:1] == ["LOAD"]:
        offset, vaddr, size = (int(fields[i], 16) for i in (1, 2, 4))
        if vaddr <= address < vaddr + size:
            print(address - vaddr + offset)
PYTHON
}
if [ -n "$loader" ] && [ -n "$libc" ] && command -v readelf >/dev/null; then
	for first in ours kernel; do
		start "$TARGETS/life"
		save_state "$target_pid"
		entry=$(at_entry "$loader" _dl_debug_state)
		[ "$first" = ours ] || kernel_on "$target_pid" "$loader" "$entry"
		trace_start gates -c --json --follow -p "$target_pid" 'life:*'
		wait_tracing gates
		[ "$first" = kernel ] || kernel_on "$target_pid" "$loader" "$entry"
		ask "open $TARGETS/libctor_plugin.so"
		same "a library, $first first" "$answer" opened
		ask "hit 100"
		ask close
		ask "open $TARGETS/libctor_plugin.so"
		same "a library once more, $first first" "$answer" opened
		ask close
		kernel_off
		if [ "$first" = kernel ]; then
			trace_stop gates
		else
			# The kernel has restored the byte that preceded our jump.
			kill -INT "$tracer_pid"
			wait "$tracer_pid"
			same "status of a trace whose gate was written over" "$?" 1
			grep -q 'the gate that notices libraries and programs' "$SCRATCH/gates.err" ||
				fail "not told: $(head -3 "$SCRATCH/gates.err")"
		fi
		same "hits, $first first" "$(hits_of "$SCRATCH/gates.out" life:hit)" 100
		check_alive "$target_pid"
		end_target
	done
fi
finish
