#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs tests and counts them.
# usage: tests/run.sh [-b BUILD] [-j JOBS] [-t SECONDS] KIND|TEST...
#
# A KIND is one of
#   unit         tests/unit/**/test_*.c: cmocka programs below BUILD, run directly
#   golden       tests/golden/*.sh and tests/golden/test_*.c
#   integration  tests/integration/**/*.sh (except lib*.sh, which they source)
#   lint         tests/lint/*.sh
# A TEST is a path below tests/, such as tests/integration/list/list.sh, or that of a folder with tests,
# tests/integration/list, or the name of a test's file: list.sh, test_ring.c.
#
# A test passes with status 0 and is skipped with 77; its last line then says why. A cmocka
# program that skips some of its cases counts as passed, plus one skip that names them. Scripts run
# in the root of the sources with
#   BUILD      the build folder, absolute
#   PROBECTL   the program
#   TARGETS    the folder of the built tests/targets
#   SCRATCH    an empty folder of their own, removed afterwards (also HOME, TMPDIR)
#   RUN_AS_USER  a command prefix that drops root; empty for an ordinary user
#   TEST_SECONDS  how long to wait for any event
#   TEST_ALL   not empty: also what takes longer (`make check-all`), of which a smaller case always runs
#
# If this runs as root, integration tests run as an ordinary user. A test that contains the line
# `# runs-as: both` runs a second time as root, one with `# runs-as: user, and root in check-all` only
# there, and one with `# runs-as: root` only as root.
# With PROBE_TEST_AS=self everything runs as the current user. Logs stay in BUILD/check/; the end of
# each that tells of a failure is printed at once. The slowest are named at the end. The last line is
# `N passed, N failed, N skipped`.
#
# With -j, that many run at a time. A test that must not meet others contains `# alone: REASON`.
set -u
# Variables meant for other programs must not influence tests: a proxy, a language, the address
# of a server, Java options, variables of the calling make.
for name in $(compgen -e); do
	case $name in
	PATH | PWD | TMPDIR | CC | LD_* | PKG_CONFIG* | CCACHE_* | GCOV_* | *SAN_OPTIONS | \
		*SEED | TEST_ALL | CHAOS_* | FOLLOW_* | TOGETHER_* | HOSTILE_* | TORTURE_* | PROBE_* | \
		*_GOLDEN) ;;
	*) unset "$name" 2>/dev/null ;;
	esac
done
export LC_ALL=C.UTF-8
# With some versions of the C library the sanitizers misplace the thread-local storage of
# libraries that are loaded later (libdw), and the leak check crashes. Their signal handlers are
# off: if a target has handlers, all its memory is searched, and a sanitized program has a lot. An
# allocation that is too large fails, as without them.
none=handle_segv=0:handle_sigbus=0:handle_sigfpe=0:allocator_may_return_null=1
export ASAN_OPTIONS=intercept_tls_get_addr=0:$none${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export TSAN_OPTIONS=$none${TSAN_OPTIONS:+:$TSAN_OPTIONS}
cd "$(dirname "$0")/.." || exit 1

build=build
jobs=1
seconds=300
while getopts b:j:t: option; do
	case $option in
	b) build=$OPTARG ;;
	j) jobs=$OPTARG ;;
	t) seconds=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
# Who waits in vain tells of what, before the test is ended.
export TEST_SECONDS=$((seconds - seconds / 10))

build=$(realpath -m "$build")
logs=$build/check
# A socket's path is limited to 107 bytes, and Chromium needs 76 of them below TMPDIR; make and
# pkg-config accept no blanks. So use /tmp if TMPDIR is longer or contains blanks.
tmp=${TMPDIR:-/tmp}
[[ ${#tmp} -le 30 && $tmp != *[[:space:]]* ]] || tmp=/tmp
scratch_root=$(mktemp -d "$tmp/probectl-check.XXXXXX")
trap 'rm -rf "$scratch_root"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM
chmod 711 "$scratch_root"
mkdir -p "$logs"

# ---- Giving up root --------------------------------------------------------

drop_root=(setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all)
source_dir=$PWD
user_source_dir=$PWD
user_build=$build

# An ordinary user cannot read a clone in root's own folder: copy it.
share_with_user()
{
	# shellcheck disable=SC2016 # expanded by that shell
	"${drop_root[@]}" sh -c 'cd "$1" && [ -r tests/run.sh ] && { [ ! -e "$2" ] || [ -x "$2" ]; }' \
		sh "$source_dir" "$build/libprobe.so" 2>/dev/null && return
	user_source_dir=$scratch_root/source
	user_build=$scratch_root/build
	mkdir -p "$user_source_dir" "$user_build"
	find . -mindepth 1 -maxdepth 1 ! -name .git ! -name build -exec cp -r -t "$user_source_dir" {} +
	find "$build" -maxdepth 1 -type f -exec cp -t "$user_build" {} +
	cp -r "$build/tests" "$user_build" 2>/dev/null
	chmod -R a+rX "$user_source_dir" "$user_build"
}

export RUN_AS_USER=
if [ "$(id -u)" = 0 ]; then
	RUN_AS_USER="${drop_root[*]}"
fi

# ---- One test --------------------------------------------------------------

# What became of each run: RESULT, MILLISECONDS and NAME, or `skip`, 0 and NAME: REASON
results=$scratch_root/results
touch "$results"

# cases_skipped LOG: what cmocka says, with the reasons of tests/unit/skip.h
cases_skipped()
{
	awk '/^\[ RUN / { name = $NF }
		/^\[  REASON  \] / { reason[name] = ": " substr($0, 14) }
		/^\[  SKIPPED \] [^ ]+$/ && !told[$NF]++ {
			printf "%s%s%s", all++ ? "; " : "", $NF, reason[$NF]
		}' "$1"
}

# report RESULT NAME LOG MILLISECONDS STATUS
report()
{
	local reason cases
	case $1 in
	ok)
		printf 'ok    %s (%d.%d s)\n' "$2" $(($4 / 1000)) $(($4 / 100 % 10))
		echo "ok $4 $2" >>"$results"
		cases=$(cases_skipped "$3")
		[ -z "$cases" ] || echo "skip 0 $2: $cases" >>"$results"
		;;
	skip)
		reason=$(grep -v '^[[:space:]]*$' "$3" | tail -n 1)
		printf 'skip  %s: %s\n' "$2" "${reason:-no reason given}"
		echo "skip 0 $2: ${reason:-no reason given}" >>"$results"
		;;
	*)
		printf 'FAIL  %s (%s, log: %s)\n' "$2" "$5" "$3"
		tail -n 40 "$3" | sed 's/^/| /'
		echo "FAIL $4 $2" >>"$results"
		;;
	esac
}

# run_one NAME ROOT|USER|SELF COMMAND...
run_one()
{
	local name=$1 as=$2 log start ms status scratch
	local -a prefix=() environment
	shift 2

	log=$logs/${name//[^a-zA-Z0-9_.-]/-}.log
	scratch=$(mktemp -d "$scratch_root/test.XXXXXX")
	environment=("BUILD=$build" "PROBECTL=$build/probectl" "TARGETS=$build/tests/targets"
		"SCRATCH=$scratch" "TMPDIR=$scratch" "HOME=$scratch")
	cd "$source_dir" || exit 1
	if [ "$as" = USER ]; then
		chown nobody:nogroup "$scratch"
		prefix=("${drop_root[@]}")
		environment=("BUILD=$user_build" "PROBECTL=$user_build/probectl"
			"TARGETS=$user_build/tests/targets" "SCRATCH=$scratch" "TMPDIR=$scratch"
			"HOME=$scratch" "RUN_AS_USER=")
		cd "$user_source_dir" || exit 1
	fi

	start=$(date +%s%3N)
	# If our parent ignores signals, as nohup(1) does, all children would, too.
	timeout -k 10 "$seconds" env --default-signal "${environment[@]}" "${prefix[@]}" "$@" \
		</dev/null >"$log" 2>&1 &
	trap 'kill $!' TERM
	wait $!
	status=$?
	ms=$(($(date +%s%3N) - start))
	cd "$source_dir" || exit 1
	rm -rf "$scratch"

	case $status in
	0) report ok "$name" "$log" "$ms" ;;
	77) report skip "$name" "$log" ;;
	124 | 137) report fail "$name" "$log" "$ms" "status $status after $((ms / 1000)) s" ;;
	*) report fail "$name" "$log" "$ms" "status $status" ;;
	esac
}

# run_integration NAME SCRIPT
run_integration()
{
	local wish

	wish=$(sed -n 's/^# runs-as: *//p' "$2" | head -n 1)
	case $wish in
	*check-all) [ -n "${TEST_ALL-}" ] && wish=both || wish= ;;
	esac
	if [ "${PROBE_TEST_AS-}" = self ]; then
		run_one "$1" SELF bash "$2"
	elif [ -n "$RUN_AS_USER" ]; then
		[ "$wish" = root ] || run_one "$1" USER bash "$2"
		[ -z "$wish" ] || run_one "$1 (as root)" ROOT bash "$2"
	elif [ "$wish" = root ]; then
		echo "needs root" >"$logs/${1//\//-}.log"
		report skip "$1" "$logs/${1//\//-}.log"
	else
		run_one "$1" SELF bash "$2"
	fi
}

# run_path PATH: runs one test, by its path below tests/ of the sources or of BUILD
run_path()
{
	local name=${1#"$build"/}
	name=${name#tests/}
	name=${name%.sh}

	case $1 in
	tests/integration/*) run_integration "$name" "$1" ;;
	*.sh) run_one "$name" SELF bash "$1" ;;
	*.c) run_one "${name%.c}" SELF "$build/${1%.c}" ;;
	*) run_one "$name" SELF "$1" ;;
	esac
}

# tests_of FOLDER: the paths of the tests in a folder below tests/, such as that of a kind
tests_of()
{
	local path

	# List sources, not build results: the build folder may contain programs of deleted tests.
	for path in tests/"$1"/{,*/}{test_*.c,*.sh}; do
		[ -e "$path" ] || continue
		case ${path##*/} in
		lib*.sh) ;;
		*) echo "$path" ;;
		esac
	done
}

# ---- All of them -----------------------------------------------------------

tests=()

# add FOLDER [NAME]: its tests, or those whose file has this name
add()
{
	local path

	while read -r path; do
		[ -n "${2-}" ] && [ "${path##*/}" != "$2" ] || tests+=("$path")
	done < <(tests_of "$1")
}

for argument in "$@"; do
	before=${#tests[@]}
	[ ! -d "$argument" ] || argument=${argument%/}/
	case $argument in
	unit | golden | integration | lint)
		add "$argument"
		continue
		;;
	tests/*/) add "${argument:6:-1}" ;;
	tests/*) tests+=("$argument") ;;
	*)
		for kind in unit golden integration lint; do
			add "$kind" "$argument"
		done
		;;
	esac
	[ ${#tests[@]} != "$before" ] || {
		echo "tests/run.sh: '$argument' is neither a kind of tests, nor a test, nor a path" \
			"below tests/" >&2
		exit 2
	}
done

case ${tests[*]-} in
*tests/integration/*) [ -z "$RUN_AS_USER" ] || share_with_user ;;
esac

# One at a time, each in a process of its own that writes what it printed into a file: outputs do
# not mix.
started=0
declare -A output_of=()

begin()
{
	started=$((started + 1))
	(
		trap - EXIT
		results=$results.$started
		: >"$results"
		run_path "$1"
	) >"$scratch_root/output.$started" &
	output_of[$!]=$started
}

# end_one: waits until a test has ended, and prints what it printed
end_one()
{
	local pid number

	wait -n -p pid "${!output_of[@]}"
	number=${output_of[$pid]}
	cat "$scratch_root/output.$number"
	cat "$results.$number" >>"$results"
	rm -f "$scratch_root/output.$number" "$results.$number"
	unset "output_of[$pid]"
}

is_alone()
{
	head -n 30 "$1" 2>/dev/null | grep -qE '^(#| \*) alone: '
}

# run_all JOBS PATH...
run_all()
{
	local most=$1 path
	shift

	for path; do
		[ ${#output_of[@]} -lt "$most" ] || end_one
		begin "$path"
	done
	while [ ${#output_of[@]} -gt 0 ]; do
		end_one
	done
}

beside=()
alone=()
for path in "${tests[@]}"; do
	if is_alone "$path"; then
		alone+=("$path")
	else
		beside+=("$path")
	fi
done
run_all "$jobs" "${beside[@]}"
run_all 1 "${alone[@]}"

awk -v most=10 '$1 != "skip" { ms[++n] = $2; all += $2; $1 = $2 = ""; name[n] = $0 }
	END {
		print "\nslowest:"
		for (; most && n; most--) {
			slowest = 1
			for (i in ms) if (ms[i] > ms[slowest]) slowest = i
			if (ms[slowest] <= 0) break
			printf "  %5.1f s %4.1f %% %s\n", ms[slowest] / 1000, 100 * ms[slowest] / all, name[slowest]
			ms[slowest] = 0
		}
	}' "$results"
if grep -q '^skip' "$results"; then
	printf '\nskipped:\n'
	sed -n 's/^skip 0 /  /p' "$results"
fi
passed=$(grep -c '^ok' "$results")
failed=$(grep -c '^FAIL' "$results")
echo "$passed passed, $failed failed, $(grep -c '^skip' "$results") skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
