#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Completion in zsh and fish, which ask bash's: it is offered in whole words.
set -u
export PATH=${PROBECTL%/*}:$PATH
installed=/usr/local/share/bash-completion/completions/probectl
for shell in zsh fish; do
	sed "s|$installed|$PWD/docs/completion/probectl.bash|" "docs/completion/probectl.$shell" \
		>"$SCRATCH/probectl.$shell"
	grep -q "$PWD" "$SCRATCH/probectl.$shell" || {
		echo "probectl.$shell names no place that an installation could change"
		exit 1
	}
done

offers_zsh()
{
	# Only what completes may call compadd: here it prints.
	# shellcheck disable=SC2016 # zsh expands it
	zsh -f -c 'compadd() { [[ $1 != -S ]] || shift 2; shift; print -rl -- "$@" }
		words=(${(z)1}); [[ $1 != *" " ]] || words+=(""); CURRENT=$#words
		PREFIX=${words[-1]#\'"'"'}; . "$2"' zsh "$1" "$SCRATCH/probectl.zsh"
}
offers_fish()
{
	# A description follows a tab.
	fish --no-config -c 'source $argv[2]; complete -C $argv[1]' "$1" "$SCRATCH/probectl.fish" |
		cut -f1
}

# holds LINE WORD: all offers hold the word
holds()
{
	local shell
	for shell in zsh fish; do
		command -v "$shell" >/dev/null || continue
		"offers_$shell" "$1" >"$SCRATCH/offer" 2>&1
		grep -qxF -e "$2" "$SCRATCH/offer" || {
			echo "$shell: '$1' offers no '$2' but: $(head -5 "$SCRATCH/offer")"
			exit 1
		}
	done
}

holds 'probectl tr' trace
holds 'probectl ' enable
holds 'probectl trace --js' --json
holds 'probectl export --format=fl' --format=flamegraph
holds 'probectl record --full lo' loop
holds 'probectl list docs/compl' docs/completion/
holds "probectl trace -p " "$$"
if [ -x /usr/bin/python3.11 ]; then
	holds 'probectl list /usr/bin/python3.11 python:gc' python:gc__start
	holds 'probectl list /usr/bin/python3.11 gc__s' gc__start
fi
for shell in zsh fish; do
	command -v "$shell" >/dev/null && ran=1 || echo "note: $shell is not installed"
done
[ -n "${ran-}" ] || {
	echo "neither zsh nor fish is installed"
	exit 77
}
