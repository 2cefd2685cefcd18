#compdef probectl
# SPDX-License-Identifier: MIT
# Zsh completion for probectl: what bash's offers, which knows commands, processes and probes.
# `make install` puts the place of the latter here.

local probectl_bash=/usr/local/share/bash-completion/completions/probectl
local -a probectl_offer probectl_folders

probectl_offer=("${(@f)$(bash -c '. "$1" && _probectl_words "$2" "$3" "$4"' bash \
	"$probectl_bash" "$words[1]" "${(j: :)words[1,CURRENT-1]} $PREFIX" \
	" ${(j: :)words[CURRENT+1,-1]}" 2>/dev/null)}")
probectl_folders=(${(M)probectl_offer:#*/})
probectl_offer=(${probectl_offer:#*/})
(( ! $#probectl_offer )) || compadd -- $probectl_offer
(( ! $#probectl_folders )) || compadd -S '' -- $probectl_folders
