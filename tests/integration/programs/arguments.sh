#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016 # a nested class of Java has a $
# What the catalogue says of arguments is so: each probe that Debian's programs pass, compared with
# what the program did. PostgreSQL's are in names_postgres.sh.
. tests/integration/lib.sh

# expect NAME LINE...: that the trace has these lines, of a probe and its arguments; regular
# expressions for all of a line
expect()
{
	local lines=$SCRATCH/$1.lines line

	sed -E 's/^([^ ]+ +){3}[^:]* ([a-z_]+:)/\2/; s/  +/ /' "$SCRATCH/$1.out" | sort -u >"$lines"
	shift
	for line; do
		grep -qxE "$line" "$lines" || fail "no line '$line', but $(grep -E "^${line%% *} " "$lines" | head -3)"
	done
	# A probe that was passed, and of which nothing is expected, is one that was forgotten here.
	same "probes that are not compared" "$(sed 's/ .*//' "$lines" | sort -u |
		comm -23 - <(printf '%s\n' "$@" php:exception__thrown | sed 's/ .*//' | sort -u))" ""
}

# ---- Python ------------------------------------------------------------------------------

if [ -x /usr/bin/python3.11 ]; then
	cat >"$SCRATCH/all.py" <<-'P'
		import gc, sys
		def work(x):
		    return x
		work(3)
		gc.collect(1)
		sys.audit("my.event", 5)
		try:
		    import no_such_module
		except ImportError:
		    pass
		import json.tool
	P
	ctl trace -o "$SCRATCH/python.out" 'python:*' -- /usr/bin/python3.11 -I -S "$SCRATCH/all.py"
	file="filename=\"$SCRATCH/all.py\""
	expect python "python:function__entry $file function=\"work\" lineno=2" \
		"python:function__return $file function=\"work\" lineno=3" \
		"python:line $file function=\"work\" lineno=3" \
		"python:gc__start generation=1" "python:gc__done collected=[0-9]+" \
		'python:import__find__load__start module="json.tool"' \
		'python:import__find__load__done module="json.tool" found=true' \
		'python:import__find__load__done module="no_such_module" found=false' \
		'python:audit event="my.event" arguments=0x[0-9a-f]+'
fi

# ---- Ruby --------------------------------------------------------------------------------

if command -v ruby3.1 >/dev/null; then
	echo 'X = 1' >"$SCRATCH/loaded.rb"
	echo 'Y = 1' >"$SCRATCH/required.rb"
	cat >"$SCRATCH/all.rb" <<-'R'
		class Shop
		  def price(i) = i * 3
		end
		def failing; raise ArgumentError, "expected"; end
		TracePoint.new(:call, :return) {}.enable
		Shop.new.price(3)
		begin; failing; rescue ArgumentError; end
		load ARGV[0]
		require ARGV[1]
		a = [1] * 77
		b = {1 => 2, 3 => 4}
		c = "x" * 4711
		d = "a_new_symbol_#{a.size}".to_sym
		GC.start
	R
	ctl trace -o "$SCRATCH/ruby.out" 'ruby:*' -- \
		ruby3.1 --disable-all "$SCRATCH/all.rb" "$SCRATCH/loaded.rb" "$SCRATCH/required.rb"
	file="filename=\"$SCRATCH/all.rb\""
	expect ruby "ruby:method__entry class=\"Shop\" method=\"price\" $file lineno=2" \
		"ruby:method__return class=\"Shop\" method=\"price\" $file lineno=2" \
		"ruby:cmethod__entry class=\"Integer\" method=\"size\" .*|ruby:cmethod__entry class=\"Class\" method=\"new\" $file lineno=6" \
		"ruby:cmethod__return class=\"Kernel\" method=\"load\" $file lineno=8" \
		"ruby:raise class=\"ArgumentError\" $file lineno=4" \
		"ruby:load__entry loaded=\"$SCRATCH/loaded.rb\" $file lineno=8" \
		"ruby:load__return loaded=\"$SCRATCH/loaded.rb\" $file lineno=8" \
		"ruby:require__entry required=\"$SCRATCH/required.rb\" $file lineno=9" \
		"ruby:require__return required=\"$SCRATCH/required.rb\" $file lineno=9" \
		"ruby:find__require__entry required=\"$SCRATCH/required.rb\" $file lineno=9" \
		"ruby:find__require__return required=\"$SCRATCH/required.rb\" $file lineno=9" \
		"ruby:parse__begin filename=\"$SCRATCH/required.rb\" lineno=1" \
		"ruby:parse__end filename=\"$SCRATCH/required.rb\" lineno=1" \
		"ruby:object__create class=\"Shop\" $file lineno=6" \
		"ruby:array__create length=77 $file lineno=10" \
		"ruby:hash__create length=4 $file lineno=1[01]" \
		"ruby:string__create length=4711 $file lineno=12" \
		"ruby:symbol__create symbol=\"a_new_symbol_77\" $file lineno=13" \
		"ruby:gc__mark__begin" "ruby:gc__mark__end" "ruby:gc__sweep__begin" "ruby:gc__sweep__end"
fi

# ---- PHP ---------------------------------------------------------------------------------

if has_probes "$(command -v php8.2)"; then
	cat >"$SCRATCH/all.php" <<-'P'
		<?php
		class Mine extends RuntimeException {}
		class Shop {
			function price($i) { if ($i > 3) throw new Mine("dear"); return 3 * $i; }
		}
		$shop = new Shop;
		$shop->price(1);
		try { $shop->price(4); } catch (RuntimeException $e) { }
		trigger_error("my own", E_USER_WARNING);
	P
	export USE_ZEND_DTRACE=1
	# Of the two sites of exception__thrown, one may exclude the other.
	ctl trace -o "$SCRATCH/php.out" --keep-going 'php:*' -- php8.2 -n -d display_errors=0 "$SCRATCH/all.php"
	file="filename=\"$SCRATCH/all.php\""
	expect php "php:request__startup $file uri=\"-\" method=\"-\"" \
		"php:request__shutdown $file uri=\"-\" method=\"-\"" \
		"php:compile__file__entry $file resolved=\"$SCRATCH/all.php\"" \
		"php:compile__file__return $file resolved=\"$SCRATCH/all.php\"" \
		"php:execute__entry $file lineno=4" "php:execute__return $file lineno=4" \
		"php:function__entry function=\"price\" $file lineno=4 class=\"Shop\" scope=\"::\"" \
		"php:function__return function=\"price\" $file lineno=4 class=\"Shop\" scope=\"::\"" \
		'php:exception__caught class="Mine"'
	grep -q 'refused php:exception__thrown' "$SCRATCH/err" ||
		grep -q ' php:exception__thrown *class="Mine"$' "$SCRATCH/php.out" || fail "no exception is thrown"
	grep -q '^probectl: no hits of php:error: .*PHP 8.2 never' "$SCRATCH/err" || fail "errors: $(cat "$SCRATCH/err")"
	ctl trace -c --json -k class -o "$SCRATCH/classes" php:exception__caught -- php8.2 -n -d display_errors=0 "$SCRATCH/all.php"
	same "exceptions by class" "$(grep -o '"keys":.*\]' "$SCRATCH/classes")" '"keys":["Mine"]'
	ctl trace -c --json -f 'starts_with(str(class + 1), "in")' -o "$SCRATCH/classes" php:exception__caught -- \
		php8.2 -n -d display_errors=0 "$SCRATCH/all.php"
	same "in the middle of a name" "$(grep -o '"hits":[0-9]*' "$SCRATCH/classes")" '"hits":1'
	ctl trace --json -o "$SCRATCH/hits" php:exception__caught -- php8.2 -n -d display_errors=0 "$SCRATCH/all.php"
	same "the class for programs" "$(grep -oE '"args":\[[0-9]{6,}\],"named":[^}]*' "$SCRATCH/hits" | sed 's/[0-9]\{6,\}/ADDRESS/')" \
		'"args":[ADDRESS],"named":{"class":"Mine"'
	unset USE_ZEND_DTRACE
fi

# ---- libstdc++ ---------------------------------------------------------------------------

# What a throw is of, in all three.
if command -v g++ >/dev/null; then
	cat >"$SCRATCH/thrower.cc" <<-'C'
		struct mine {};
		int main()
		{
			try {
				try { throw mine(); } catch (mine &) { throw; }
			} catch (mine &) { }
		}
	C
	g++ -g -O0 -o "$SCRATCH/thrower" "$SCRATCH/thrower.cc" || die "g++ failed"
	ctl trace -o "$SCRATCH/cxx.out" 'libstdcxx:throw(object,sym(type))' 'libstdcxx:rethrow(object,sym(type))' \
		'libstdcxx:catch(object,sym(type))' -- "$SCRATCH/thrower"
	expect cxx 'libstdcxx:throw object=0x[0-9a-f]+ type="typeinfo for mine"' \
		'libstdcxx:catch object=0x[0-9a-f]+ type="typeinfo for mine"' \
		'libstdcxx:rethrow object=0x[0-9a-f]+ type="typeinfo for mine"'
	same "one object" "$(grep -o 'object=0x[0-9a-f]*' "$SCRATCH/cxx.out" | sort -u | wc -l)" 1
fi

# ---- OpenJDK -----------------------------------------------------------------------------

if command -v javac >/dev/null; then
	mkdir "$SCRATCH/java"
	cat >"$SCRATCH/java/All.java" <<-'J'
		public class All {
			static class Dear extends RuntimeException {}
			static class Lock {}
			static int count = price(2);
			static volatile boolean again;
			static int price(int i) { return 3 * i; }
			public static void main(String[] a) throws Exception {
				Lock lock = new Lock();
				Thread t = new Thread(() -> {
					price(1);
					synchronized (lock) { lock.notify(); }
					while (!again) Thread.onSpinWait();
					synchronized (lock) { lock.notifyAll(); }
				}, "mine");
				synchronized (lock) {
					t.start();
					lock.wait();
					again = true;
					lock.wait();
				}
				t.join();
				System.gc();
				Thread.sleep(1);
				try { throw new Dear(); } catch (Dear e) { }
			}
		}
	J
	javac -d "$SCRATCH/java" "$SCRATCH/java/All.java" || die "javac failed"
	ctl trace -b 32M -o "$SCRATCH/jvm.out" --keep-going hotspot:thread__start hotspot:thread__stop \
		hotspot:thread__sleep__begin hotspot:thread__sleep__end hotspot:gc__begin hotspot:gc__end \
		'hotspot:mem__pool__gc__*' 'hotspot:vm__*' 'hotspot:vmops__*' hotspot:class__loaded \
		hotspot:class__initialization__required hotspot:class__initialization__clinit \
		hotspot:class__initialization__end hotspot:monitor__wait hotspot:monitor__waited \
		hotspot:monitor__notify hotspot:monitor__notifyAll -- \
		java -XX:+UseSerialGC -XX:+DTraceMonitorProbes -Xshare:auto -cp "$SCRATCH/java" All
	memory='initial=[0-9]+ used=[0-9]+ committed=[0-9]+ maximum=[0-9-]+'
	expect jvm 'hotspot:thread__start name="mine" java_thread=[0-9]+ os_thread=[0-9]+ daemon=false' \
		'hotspot:thread__stop name="mine" java_thread=[0-9]+ os_thread=[0-9]+ daemon=false' \
		'hotspot:thread__sleep__begin time=[0-9]+' 'hotspot:thread__sleep__end interrupted=false' \
		'hotspot:gc__begin full=true' 'hotspot:gc__end' \
		"hotspot:mem__pool__gc__begin manager=\"MarkSweepCompact\" pool=\"Tenured Gen\" $memory" \
		"hotspot:mem__pool__gc__end manager=\"MarkSweepCompact\" pool=\"Tenured Gen\" $memory" \
		hotspot:vm__init__begin hotspot:vm__init__end hotspot:vm__shutdown \
		'hotspot:vmops__request operation="GenCollectFull" mode=0' \
		'hotspot:vmops__begin operation="GenCollectFull" mode=0' \
		'hotspot:vmops__end operation="GenCollectFull" mode=0' \
		'hotspot:class__loaded class="All\$Dear" loader=0x[0-9a-f]+ shared=false' \
		'hotspot:class__initialization__required class="All" loader=0x[0-9a-f]+ thread_type=[0-9-]+' \
		'hotspot:class__initialization__clinit class="All" loader=0x[0-9a-f]+ thread_type=[0-9-]+ waited=false' \
		'hotspot:class__initialization__end class="All" loader=0x[0-9a-f]+ thread_type=[0-9-]+ waited=false' \
		'hotspot:monitor__wait thread=[0-9]+ monitor=0x[0-9a-f]+ class="All\$Lock" time=0' \
		'hotspot:monitor__waited thread=[0-9]+ monitor=0x[0-9a-f]+ class="All\$Lock"' \
		'hotspot:monitor__notify thread=[0-9]+ monitor=0x[0-9a-f]+ class="All\$Lock"' \
		'hotspot:monitor__notifyAll thread=[0-9]+ monitor=0x[0-9a-f]+ class="All\$Lock"'
	ctl trace -o "$SCRATCH/all.out" -f 'starts_with(class, "All")' --keep-going hotspot:object__alloc \
		hotspot:method__entry hotspot:method__return -- java -XX:+DTraceAllocProbes \
		-XX:+DTraceMethodProbes -Xshare:auto -Xint -cp "$SCRATCH/java" All
	expect all 'hotspot:object__alloc thread=[0-9]+ class="All\$Lock" size=[0-9]+' \
		'hotspot:method__entry thread=[0-9]+ class="All" method="price" signature="\(I\)I"' \
		'hotspot:method__return thread=[0-9]+ class="All" method="price" signature="\(I\)I"'
fi
finish
