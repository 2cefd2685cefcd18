#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Bash completion: what it offers for lines as a user types them.
set -u
[ -x /usr/bin/python3.11 ] || {
	echo "python3.11 is not installed"
	exit 77
}
PATH=${PROBECTL%/*}:$PATH
# shellcheck source=docs/completion/probectl.bash
. docs/completion/probectl.bash

# offers LINE: what bash offers at its end, sorted, in one line
offers()
{
	COMP_LINE=$1
	COMP_POINT=${#1}
	COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
	_probectl probectl
	printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd' '
}

# expect LINE WANTED: the offer is exactly that
expect()
{
	local got

	got=$(offers "$1")
	[ "$got" = "$2" ] || {
		echo "'$1': got '$got', wanted '$2'"
		exit 1
	}
}

# holds LINE WORD: the offer contains the word
holds()
{
	case " $(offers "$1") " in
	*" $2 "*) ;;
	*)
		echo "'$1': got '$(offers "$1")', without '$2'"
		exit 1
		;;
	esac
}

expect 'probectl tr' 'trace'
expect 'probectl st' 'status'
holds 'probectl ' 'enable'
holds 'probectl help ' 'list'
holds 'probectl trace --j' '--json'
# Every option that the help lists, and no other word that it mentions.
expect 'probectl repair -' '--cgroup --children --container --exe --help --json --name --pid --tree --user -h -p'
for command in $(offers 'probectl help '); do
	[ "$command" = help ] || holds "probectl $command -" --help
done
expect 'probectl export --js' ''
expect 'probectl export --format=c' 'csv'
expect 'probectl trace --stack=f' 'frames'
holds 'probectl trace --sta' '--stack'
expect 'probectl record --full lo' 'loop'
expect 'probectl top --sort t' 'time total'
holds 'probectl read -t ' 'hist'
expect 'probectl list docs/compl' 'docs/completion'
holds 'probectl trace -e x -- pytho' 'python3.11'
holds 'probectl top -- pytho' 'python3.11'
holds 'probectl top --fo' '--follow'
holds 'probectl top --ke' '--key'
holds 'probectl trace -p ' "$$"
holds 'probectl trace -p 1,' "1,$$"
holds 'probectl trace --children ' "$$"
holds 'probectl trace --name ba' 'bash'
holds 'probectl trace --user ' "$(id -un)"
holds "probectl trace --exe $(readlink -f /proc/$$/exe) --user " "$(id -un)"
expect 'probectl trace -n ' ''
holds 'probectl list /usr/bin/python3.11 python:gc' 'gc__start'

# After a colon bash replaces only the text that follows it.
program=/usr/bin/python3.11
line="probectl trace -e python:function__en"
COMP_LINE="$line -- $program x.py"
COMP_POINT=${#line}
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
_probectl probectl
[ "${COMPREPLY[*]}" = function__entry ] || {
	echo "'$COMP_LINE': got '${COMPREPLY[*]}'"
	exit 1
}

# Bare names, in quotes, and of processes that are named in other ways. In quotes a colon breaks
# no word.
holds 'probectl list /usr/bin/python3.11 gc' 'gc__start'
holds "probectl list /usr/bin/python3.11 'python:gc" 'python:gc__start'
holds 'probectl list /usr/bin/python3.11 "gc__s' 'gc__start'
cp "$program" "$SCRATCH/typed-python"
"$SCRATCH/typed-python" -c 'import time; time.sleep(60)' &
pid=$!
trap 'kill $pid' EXIT
sleep 0.5
holds 'probectl trace --name typed-python python:gc' 'gc__start'
holds "probectl trace --name typed-python 'python:gc" 'python:gc__start'
holds "probectl status --children $$ gc__s" 'gc__start'
holds "probectl trace -p $pid,1 gc__s" 'gc__start'
