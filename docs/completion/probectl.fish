# SPDX-License-Identifier: MIT
# Fish completion for probectl: what bash's offers, which knows commands, processes and probes.
# `make install` puts the place of the latter here.

function __probectl_offer
    set -l probectl_bash /usr/local/share/bash-completion/completions/probectl
    set -l before (commandline -cp | string collect)
    bash -c '. "$1" && _probectl_words "$2" "$3" ""' bash $probectl_bash probectl "$before" 2>/dev/null
end

complete -c probectl -f -a '(__probectl_offer)'
