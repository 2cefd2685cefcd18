#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
# Above these stacks lies memory whose pages a program provides (userfaultfd(2)). Neither a stub nor
# the controller asks for such a page, because the thread that provides it may be waiting for us.
# Root only: for other users, the kernel would fail instead of waiting.
. tests/integration/lib.sh

# moves WHAT: both threads pass the probe, and no page was asked for
moves()
{
	local before after
	ask ""
	read -ra before <<<"$answer"
	while :; do
		ask ""
		read -ra after <<<"$answer"
		[[ ${after[1]} -le ${before[1]} || ${after[2]} -le ${before[2]} ]] || break
		pause
	done
	[[ ${after[1]} -gt ${before[1]} && ${after[2]} -gt ${before[2]} ]] ||
		fail "$1: a thread hangs: $answer"
	same "$1: pages that were asked for" "${after[4]}" 0
}

for how in missing minor nobody; do
	start "$TARGETS/served" $how
	if [ "$answer" = lacks ]; then
		[ $how != missing ] || skip "this kernel lacks userfaultfd"
		echo "note: this kernel lacks userfaultfd for $how pages"
		continue
	fi
	save_state "$target_pid"

	for options in "-t stack" "--stack -o /dev/null" "-t stack,frames" "-c -k ustack"; do
		# shellcheck disable=SC2086 # words
		timeout -k 1 "$TEST_SECONDS" "$PROBECTL" trace $options -d 0.2 -p "$target_pid" served:work \
			>"$SCRATCH/out" 2>"$SCRATCH/err" ||
			fail "$how, trace $options: status $?: $(cat "$SCRATCH/err")"
		moves "$how, trace $options"
	done
	until grep -q work_plainly "$SCRATCH/out"; do
		# On a busy machine, no thread may have hit in that time.
		pause
		timeout -k 1 "$TEST_SECONDS" "$PROBECTL" trace -c -k ustack -d 1 -p "$target_pid" served:work \
			>"$SCRATCH/out" 2>"$SCRATCH/err" || die "$how: $(cat "$SCRATCH/err")"
	done

	# A killed controller leaves frames. The next one searches all stacks for a frame in use.
	for ((i = 0; i < 15; i++)); do
		trace_start killed -c -p "$target_pid" served:work
		sleep 0.0$((i * 4 / 10))$((i * 4 % 10))
		end_process "$tracer_pid"
		timeout -k 1 "$TEST_SECONDS" "$PROBECTL" repair -p "$target_pid" \
			>"$SCRATCH/out" 2>"$SCRATCH/err" ||
			fail "$how, repair $i: status $?: $(cat "$SCRATCH/err")"
	done
	moves "$how, repair"
	same_state "$target_pid"
	end_target
done
finish
