#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Metrics for Performance Co-Pilot over time: an archive that contains what the program did; a
# collector that is down for a while; exporters that are killed; files that are removed; several
# processes; a program that ends; more rows than PCP accepts.
. tests/integration/lib.sh
. tests/integration/pcp/lib_pcp.sh
need_attach
need flock
need_pcp
pcp_setup
pmcd_start

threads=2

# hit N: each thread hits its probe N times
hit()
{
	ask "$1"
	same "hits of the program" "$answer" "did $((threads * $1))"
}

start "$TARGETS/hits" $threads
save_state "$target_pid"
me=$target_pid/hits:work
options=(-q -i 0.2 -p "$target_pid" hits:work)

# Every user can open the folder and lock it. No exporter waits for that lock.
exec {folder}<"$pcp_dir/tmp/mmv"
flock -s "$folder"

# ---- An archive ----------------------------------------------------------------------

trace_start archived -t pcp -t pcp,counter,arg2 "${options[@]}"
archived_pid=$tracer_pid
until_metric count.hits "$me" 0
echo 'log mandatory on 250 msec { mmv.probectl }' >"$SCRATCH/pmlogger.conf"
pmlogger -h local:// -c "$SCRATCH/pmlogger.conf" -l "$SCRATCH/pmlogger.log" -U "$(id -un)" -y \
	"$SCRATCH/archive" >"$SCRATCH/pmlogger.out" 2>&1 &
logger_pid=$!
on_exit "end_process $logger_pid"
hit 1000
until_metric count.hits "$me" 2000
hit 500
until_metric count.hits "$me" 3000
until_metric counter.value "$me" 1497

# archived: the final number of hits, from a replay
archived()
{
	pmrep -a "$SCRATCH/archive" -r -u -p -U -o csv mmv.probectl.count.hits 2>/dev/null |
		tail -n 1 | sed 's/.*,//'
}
while [ "$(archived)" != 3000 ]; do
	pause
done
kill -TERM $logger_pid
wait $logger_pid
same "archived hits" "$(archived)" 3000
same "archived values" "$(pmdumplog "$SCRATCH/archive" mmv.probectl.counter.value |
	sed -n 's/.* value //p' | tail -n 1)" 1497
pminfo -a "$SCRATCH/archive" -l mmv.probectl.count.hits | grep -q "\"pid\":$target_pid" ||
	fail "no labels in the archive"

# ---- A collector that is down ----------------------------------------------------------

pmcd_stop
hit 1000
same "exporters without pmcd" "$(find "$pcp_dir/tmp/mmv" -type f -name 'probectl.*' | wc -l)" 2
pmcd_start
until_metric count.hits "$me" 5000

# ---- Killed ------------------------------------------------------------------------------

end_process "$archived_pid"
until_metric count.hits "$me" ''
same "files of one that was killed" \
	"$(find "$pcp_dir/tmp/mmv" -name "*probectl.$archived_pid.*" | wc -l)" 2
trace_start next -t pcp,point "${options[@]}"
until_metric point.hits "$me" 0
same "files of one that was killed" \
	"$(find "$pcp_dir/tmp/mmv" -name "*probectl.$archived_pid.*" | wc -l)" 0
hit 10
until_metric point.hits "$me" 20
rm -f "$pcp_dir"/tmp/mmv/probectl.*
until_metric point.hits "$me" 20
trace_stop next
same "files" "$(find "$pcp_dir/tmp/mmv" -type f | wc -l)" 0
same_state "$target_pid"

# ---- Rows that come, and too many -------------------------------------------------------------

# PCP ignores a file with more than 10000 labels: with five per row, two for the process and one
# for the host, that is 1999 rows.
trace_start many -t pcp,count -k arg1 "${options[@]}"
until_metric count.lost "$target_pid" 0
for count in 1 10 100 2500; do
	hit $count
done
until_metric count.hits "$me 0" $((4 * threads))
until_metric count.hits "$me 9" $((3 * threads))
same "rows" "$(metric count.hits | wc -l)" 1999
trace_stop many
same "warnings" "$(cat "$SCRATCH/many.err")" \
	"probectl: warning: mmv.probectl.count: PCP takes 10000 labels and values of an exporter; \
501 rows are left out"
same_state "$target_pid"

# ---- Several processes ----------------------------------------------------------------------------

mkfifo "$SCRATCH/lines"
"$TARGETS/hits" 1 <"$SCRATCH/lines" >"$SCRATCH/answers" &
other_pid=$!
on_exit "end_process $other_pid"
exec {lines}>"$SCRATCH/lines"
trace_start both -q -t pcp -i 0.2 -p "$other_pid,$target_pid" hits:work
until_metric count.hits "$me" 0
until_metric count.hits "$other_pid/hits:work" 0
hit 30
echo 40 >&$lines
until_metric count.hits "$me" 60
until_metric count.hits "$other_pid/hits:work" 40
trace_stop both
same_state "$target_pid"
check_alive "$other_pid"
end_target

# ---- A program that is started, and ends --------------------------------------------------------------

# With --follow; the last values stay for two more intervals.
cat >"$SCRATCH/program" <<PROGRAM
echo 100 | "$TARGETS/hits" $threads
echo 50 | "$TARGETS/hits" $threads
PROGRAM
trace_start program -q -t pcp -i 60 hits:work -- sh "$SCRATCH/program"
while [ "$(metric count.hits)" != 300 ]; do
	pause
done
same "hits of all that a program has started" "$(metric count.hits)" 300
same "its label" "$(pminfo -h local:// -l mmv.probectl.count.hits | grep -o '"program":"[^"]*"')" \
	'"program":"sh"'
kill -INT "$tracer_pid"
wait "$tracer_pid" || fail "trace -- PROGRAM: status $?"
same "files" "$(find "$pcp_dir/tmp/mmv" -type f | wc -l)" 0
finish
