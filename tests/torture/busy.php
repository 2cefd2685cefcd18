<?php
/* SPDX-License-Identifier: MIT */
/* Calls, allocates and matches, and checks every result; answers lines as victim.c does. */
function work()
{
	$data = [];
	for ($i = 0; $i < 60; $i++)
		$data["k$i"] = ['n' => $i * $i, 't' => str_repeat(chr(97 + $i % 26), $i)];
	$text = json_encode($data);
	if (json_decode($text, true) !== $data || unserialize(serialize($data)) !== $data)
		return 'copies differ';
	usort($data, fn($a, $b) => $b['n'] <=> $a['n']);
	try {
		throw new RuntimeException('x');
	} catch (RuntimeException $e) {
		$text .= $e->getMessage();
	}
	gc_collect_cycles();
	return md5($text) . preg_match_all('/[a-f]+/', $text) . implode(',', array_column($data, 'n'));
}

$first = work();
$rounds = $wrong = 0;
echo "ready\n";
while (true) {
	$rounds++;
	$wrong += work() !== $first;
	$read = [STDIN];
	$none = null;
	if (!stream_select($read, $none, $none, 0))
		continue;
	$line = fgets(STDIN);
	if ($line === false || $line === "quit\n")
		exit($wrong ? 1 : 0);
	echo "rounds $rounds wrong $wrong interrupted 0 late 0\n";
}
