#!/bin/bash
# SPDX-License-Identifier: MIT
# Expands, matches, substitutes and forks as a configure script does, and checks every result;
# answers lines as victim.c does.
work()
{
	local text='' name i
	local -A seen=()
	for name in alpha beta gamma delta epsilon; do
		seen[$name]=${#name}
		case $name in
		*ta) text+=${name%ta} ;;
		[a-e]*) text+=${name^^} ;;
		*) text+=$(printf '%s' "${name//a/o}") ;;
		esac
	done
	for ((i = 0; i < 50; i++)); do
		[[ $text =~ ^([a-z]*)([A-Z]+) ]] && text=$((i * i % 97))${BASH_REMATCH[1]}$text
	done
	result=$text${#seen[@]}$(cat <<<"$text" | wc -c)
}

work
first=$result rounds=0 wrong=0
echo ready
while :; do
	rounds=$((rounds + 1))
	work
	[ "$result" = "$first" ] || wrong=$((wrong + 1))
	if read -r -t 0; then
		read -r line || exit "$wrong"
		[ "$line" != quit ] || exit $((wrong != 0))
		echo "rounds $rounds wrong $wrong interrupted 0 late 0"
	fi
done
