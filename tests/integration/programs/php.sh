#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# PHP: entries and returns of its functions. PHP has these probes only if USE_ZEND_DTRACE=1 is
# in the environment.
. tests/integration/lib.sh
need php8.2 jq
has_probes "$(command -v php8.2)" || skip "this PHP is built without probes"

cat >"$SCRATCH/calls.php" <<'PHP'
<?php
function price($item) { return $item * 3; }
function total($n) { $s = 0; for ($i = 0; $i < $n; $i++) $s += price($i); return $s; }
class Shop { function open($n) { return total($n); } }
try { throw new RuntimeException("expected"); } catch (RuntimeException $e) { }
echo (new Shop)->open(10), "\n";
PHP
export USE_ZEND_DTRACE=1
plain=$(php8.2 -n "$SCRATCH/calls.php")
traced=$("$PROBECTL" trace --json -o "$SCRATCH/php.out" \
	'php:function__entry(str(arg0),str(arg1),arg2)' 'php:function__return(str(arg0))' \
	'php:exception__thrown(str(arg0))' 'php:request__*' -v --keep-going -- php8.2 -n "$SCRATCH/calls.php" \
	2>"$SCRATCH/err") || fail "trace -- php8.2: status $?: $(head -3 "$SCRATCH/err")"
refusals "$SCRATCH/err"
same "the program's output" "$traced" "$plain"
called()
{
	jq -r --arg name "$1" 'select(.args and .name == $name) | .args[0]' "$SCRATCH/php.out" |
		sort | uniq -c | tr -s ' ' | paste -sd,
}
same "functions entered" "$(called function__entry)" " 1 main, 1 open, 10 price, 1 total"
# Its two sites are three bytes apart. The one hit here can only be punned, which refuses the
# other; if the pun is impossible, it is refused itself.
if ! grep 'refused php:exception__thrown' "$SCRATCH/err" | grep -qv 'bytes overlap those of another'; then
	same "exceptions" "$(called exception__thrown)" " 1 RuntimeException"
fi
same "losses" "$(jq -s 'map(.lost // 0) | add // 0' "$SCRATCH/php.out")" 0

same "with all probes counted" "$("$PROBECTL" trace --count -o "$SCRATCH/all.out" --keep-going 'php:*' -- \
	php8.2 -n "$SCRATCH/calls.php" 2>"$SCRATCH/err")" "$plain"
same "with all probes recorded" "$("$PROBECTL" trace -o "$SCRATCH/all.out" --keep-going 'php:*' -- \
	php8.2 -n "$SCRATCH/calls.php" 2>"$SCRATCH/err")" "$plain"

need_attach
cat >"$SCRATCH/serve.php" <<'PHP'
<?php
function answer($line) { return strrev(trim($line)); }
echo "ready\n";
while (($line = fgets(STDIN)) !== false) echo answer($line), "\n";
PHP
start "$(command -v php8.2)" -n "$SCRATCH/serve.php"
save_state "$target_pid"
trace_start serve --json --keep-going -p "$target_pid" 'php:function__entry(str(arg0))' 'php:execute__entry'
wait_on "$target_pid" php:function__entry
serve_words
same "calls of answer()" "$(jq -r 'select(.args and .name == "function__entry") | .args[0]' "$SCRATCH/serve.out" | grep -c answer)" 3
same_state "$target_pid"

# The patched sites are enabled again, and disabled.
did()
{
	"$PROBECTL" "$1" --keep-going -p "$target_pid" 'php:*' 2>>"$SCRATCH/err" |
		sed 's/abled .*//; s/ *[a-z]*$//'
}
enabled=$(did enable)
same "sites enabled again" "$(did enable)" "$enabled"
same "sites disabled" "$(did disable)" "$enabled"
same "sites disabled again" "$(did disable)" "$enabled"
same_state "$target_pid"
ask again
same "the server answers" "$answer" "niaga"
end_target
finish
