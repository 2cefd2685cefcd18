# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Bash completion for probectl: commands, options, process ids, probes, files.
#
# Commands and options come from probectl's own help, probes from `probectl
# list` on the process or the program that the line names. Bash splits words at
# colons (COMP_WORDBREAKS), so the words are taken from the line itself.

# Commands, one a line.
_probectl_commands()
{
	"$1" help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\)\( .*\)\{0,1\}$/\1/p'
}

# Options of a command, one a line.
_probectl_options()
{
	"$1" help "$2" 2>/dev/null |
		sed -n '/^Options:/,$s/^ *\(-.*\)  .*/\1/p' |
		grep -oE -- '--?[a-zA-Z][a-z-]*' | sort -u
}

# The user's own processes.
_probectl_pids()
{
	local folder

	for folder in /proc/[0-9]*; do
		[ -O "$folder" ] && echo "${folder#/proc/}"
	done
}

# The command names of the user's own processes.
_probectl_names()
{
	local folder

	for folder in /proc/[0-9]*; do
		[ -O "$folder" ] && cat "$folder/comm" 2>/dev/null
	done | sort -u
}

# The first of the user's own processes with a command name.
_probectl_named()
{
	local folder comm

	for folder in /proc/[0-9]*; do
		[ -O "$folder" ] && read -r comm 2>/dev/null <"$folder/comm" &&
			[ "$comm" = "${1:0:15}" ] && echo "${folder#/proc/}" && return
	done
}

# The first of the user's own processes that runs a file.
_probectl_running()
{
	local folder

	for folder in /proc/[0-9]*; do
		[ -O "$folder" ] && [ "$folder/exe" -ef "$1" ] && echo "${folder#/proc/}" && return
	done
}

# The users of processes.
_probectl_users()
{
	stat -c %U /proc/[0-9]* 2>/dev/null | sort -u
}

# The control groups of processes, other than the root.
_probectl_groups()
{
	sed -n 's|^[^:]*:[^:]*:\(/..*\)|\1|p' /proc/[0-9]*/cgroup 2>/dev/null | sort -u
}

# The process that an option and its value name; several have the probes of the first.
_probectl_pid_of()
{
	local children

	case $1 in
	-p | --pid | --tree) echo "${2%%,*}" ;;
	--name) _probectl_named "$2" ;;
	--exe) _probectl_running "$2" ;;
	--children)
		# The file ends without a newline, for which read fails.
		read -r children 2>/dev/null <"/proc/${2%%,*}/task/${2%%,*}/children"
		echo "${children%% *}"
		;;
	esac
}

# Probes of what the line names: a pid, or the program after `--`. With $4, also their names
# without the provider.
_probectl_probes()
{
	local probectl=$1 pid=$2 program=$3 bare=$4

	if [ -n "$pid" ]; then
		"$probectl" list -p "$pid" 2>/dev/null
	elif [ -n "$program" ] && program=$(type -P -- "$program"); then
		"$probectl" list "$program" 2>/dev/null
	fi | grep -oE '^[[:alnum:]_.]+:[[:alnum:]_.-]+' |
		if [ -n "$bare" ]; then sed 'p; s/^[^:]*://'; else cat; fi | sort -u
}

# Those lines of stdin that begin with $1 become the answer. (compgen -W would
# expand them as the shell does, and names come from files that anyone wrote.)
_probectl_answer()
{
	local line

	while read -r line; do
		[[ $line == "$1"* ]] && COMPREPLY+=("$line")
	done
}

_probectl()
{
	local line=${COMP_LINE:0:COMP_POINT} probectl=$1 cur prev command='' pid='' program=''
	local after_dashes='' quote='' i
	local -a words tail

	# The words before the one that is being typed; quoting is not looked at.
	read -ra words <<<"$line"
	cur=
	case $line in
	*[[:space:]]) ;;
	*)
		cur=${words[-1]}
		unset 'words[-1]'
		;;
	esac
	prev=${words[-1]-}
	# An open quote is no part of the word; a colon after it does not break the word.
	case $cur in
	[\'\"]*)
		quote=${cur:0:1}
		cur=${cur:1}
		;;
	esac
	read -ra tail <<<"${COMP_LINE:COMP_POINT}"

	for ((i = 1; i < ${#words[@]}; i++)); do
		case ${words[i]} in
		--)
			after_dashes=$i
			program=${words[i + 1]-}
			break
			;;
		-p | --pid | --name | --exe | --children | --tree) pid=$(_probectl_pid_of "${words[i]}" "${words[i + 1]-}") ;;
		-*) ;;
		*) [ -n "$command" ] || command=${words[i]} ;;
		esac
	done
	# A program may also stand behind the cursor.
	for ((i = 0; i + 1 < ${#tail[@]}; i++)); do
		[ "${tail[i]}" = -- ] && program=${tail[i + 1]}
		case ${tail[i]} in
		-p | --pid | --name | --exe | --children | --tree) pid=$(_probectl_pid_of "${tail[i]}" "${tail[i + 1]}") ;;
		esac
	done

	COMPREPLY=()
	if [ -n "$after_dashes" ]; then
		if [ ${#words[@]} -eq $((after_dashes + 1)) ]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur" | sort -u)
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			compopt -o filenames 2>/dev/null
		fi
		return
	fi
	if [ -z "$command" ]; then
		_probectl_answer "$cur" < <(
			_probectl_commands "$probectl"
			printf '%s\n' --help --version
		)
		return
	fi

	# --format=csv: bash takes what is behind the = for the word.
	case $COMP_WORDBREAKS,$cur in
	*=*,--stack=*)
		_probectl_answer "${cur#*=}" < <(printf '%s\n' frames bytes=)
		return
		;;
	*=*,--*=*)
		prev=${cur%%=*}
		cur=${cur#*=}
		;;
	esac
	case $prev in
	-p | --pid | --children | --tree)
		# Several are separated by commas.
		_probectl_answer "$cur" < <(_probectl_pids | sed "s/^/${cur%"${cur##*,}"}/")
		return
		;;
	--name)
		_probectl_answer "$cur" < <(_probectl_names)
		return
		;;
	--user)
		_probectl_answer "$cur" < <(_probectl_users)
		return
		;;
	--cgroup)
		_probectl_answer "$cur" < <(_probectl_groups)
		return
		;;
	-o | --output | --exe | --html)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		compopt -o filenames 2>/dev/null
		return
		;;
	-t | --tracer)
		_probectl_answer "$cur" < <("$probectl" trace -t help 2>/dev/null |
			sed -n 's/^  \([a-z]*\)\([,[ ].*\)$/\1/p')
		return
		;;
	-F | --format)
		_probectl_answer "$cur" < <(printf '%s\n' json csv folded flamegraph trace-event)
		return
		;;
	--pairs)
		_probectl_answer "$cur" < <(printf '%s\n' auto listed)
		return
		;;
	--full)
		case $command in
		trace) _probectl_answer "$cur" < <(echo wait) ;;
		*) _probectl_answer "$cur" < <(printf '%s\n' flush loop stop wait) ;;
		esac
		return
		;;
	--sort)
		_probectl_answer "$cur" < <(printf '%s\n' rate total p50 p99 time name)
		return
		;;
	--container | -k | --key | -f | --filter | --match | --min | --every | --rate | --rows | --listen | \
		--otlp | --top | --keys | \
		-n | --hits | -d | --duration | -i | --interval | -s | --strings | -b | --buffer | --plan | \
		--rotate)
		return
		;;
	esac
	case $cur in
	-*)
		_probectl_answer "$cur" < <(_probectl_options "$probectl" "$command")
		return
		;;
	esac

	case $command in
	help)
		_probectl_answer "$cur" < <(_probectl_commands "$probectl")
		;;
	export | report)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		compopt -o filenames 2>/dev/null
		;;
	*)
		if [ "$command" = list ] && [ -z "$pid" ]; then
			# Files, and behind a file its probes.
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			[ ${#COMPREPLY[@]} = 0 ] || compopt -o filenames 2>/dev/null
			[ -f "$prev" ] && program=$prev
		fi
		_probectl_answer "$cur" < <(_probectl_probes "$probectl" "$pid" "$program" "$cur")
		# What bash takes for the word begins after the last colon, but not in quotes.
		case $quote,$COMP_WORDBREAKS,$cur in
		,*:*,*:*) COMPREPLY=("${COMPREPLY[@]#"${cur%:*}:"}") ;;
		esac
		;;
	esac
}

# For other shells (probectl.zsh, probectl.fish), which ask this one: the words that may stand at
# the cursor, one a line. $2 is the line up to the cursor, $3 the rest.
_probectl_words()
{
	local COMP_LINE=$2$3 COMP_POINT=${#2} COMP_WORDBREAKS='=' COMPREPLY word=${2##*[[:space:]]} before=

	case $word in
	--*=*) before=${word%%=*}= ;;
	esac
	_probectl "$1"
	for word in "${COMPREPLY[@]}"; do
		[ ! -d "$word" ] || word+=/
		printf '%s\n' "$before$word"
	done
}

complete -F _probectl probectl
