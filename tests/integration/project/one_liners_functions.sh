#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of docs/one-liners.md about programs without probes, on real ones, beside what these say
# themselves.
. tests/integration/project/lib_one_liners.sh
need_attach

# count TEXT [COLUMN]: the number of the row that ends with TEXT
count()
{
	column "${2-4}" "  $1"
}

# ---- The C library: look-ups, reads, opens -----------------------------------------------

cat >"$SCRATCH/lookup.py" <<'PYTHON'
import socket, sys, time

print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    try:
        socket.getaddrinfo(line.strip(), 80)
    except OSError:
        pass
    print((time.perf_counter() - start) * 1000, flush=True)
PYTHON
if [ -x /usr/bin/python3.11 ]; then
	start /usr/bin/python3.11 -I -S "$SCRATCH/lookup.py"
	save_state "$target_pid"
	answer_start "Which DNS look-ups are slow?" "$target_pid"
	for name in localhost a.invalid localhost; do
		ask "$name"
		[ "$name" = localhost ] || slowest=$answer
	done
	answer_stop
	same "look-ups of localhost" "$(count '"localhost"')" 2
	same "look-ups of a.invalid" "$(count '"a.invalid"')" 1
	between "milliseconds of a.invalid" 0 "$(milliseconds "$(column 5 '"a.invalid"')")" \
		"1.01 * $slowest + 0.1"
	same_state "$target_pid"
	end_target
else
	echo "note: no /usr/bin/python3.11"
fi

answer "How many bytes are read from which descriptor?"
bytes=$(sed -n 's/^\([0-9]*\) bytes.* copied.*/\1/p' "$SCRATCH/answer.err")
same "bytes from descriptor 0" "$(awk '$(NF - 1) == 0 { sum += $4 * $NF } END { print sum }' \
	"$SCRATCH/answer")" "$bytes"

answer "Which files cannot be opened?"
sed -n "s/^cat: \([^:]*\): No such file.*/\1/p" "$SCRATCH/answer.err" >"$SCRATCH/missing"
same "files that cannot be opened" "$(sed -n 's/.*="\(missing[^"]*\)".*/\1/p' "$SCRATCH/opens")" \
	"$(cat "$SCRATCH/missing")"
grep -q /dev/null "$SCRATCH/opens" && fail "a file that was opened"
answer "Which files cannot be opened?" "" 2

# ---- Locks and memory --------------------------------------------------------------------

cat >"$SCRATCH/locks.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int reports, deposits;
static char *volatile kept;

__attribute__((noinline)) static void report(void)
{
	pthread_mutex_lock(&lock);
	usleep(2000);
	reports++;
	pthread_mutex_unlock(&lock);
	kept = NULL;
}

__attribute__((noinline)) static void deposit(void)
{
	pthread_mutex_lock(&lock);
	deposits++;
	pthread_mutex_unlock(&lock);
	kept = malloc(123);
	free(kept);
}

static void *work(void *data)
{
	for (int i = 0; i < 20; i++) {
		if (i % 4 == 0)
			report();
		deposit();
	}
	return data;
}

int main(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("reports %d deposits %d\n", reports, deposits);
	return 0;
}
C
# calls_in COLUMN FUNCTION: the sum of a column over the rows of stacks with the function
calls_in()
{
	awk -v column="$1" -v name="$2" '
		/^fn:/ { calls = $column }
		$NF == name { sum += calls }
		END { print sum + 0 }' "$SCRATCH/answer"
}
if gcc -O1 -fno-omit-frame-pointer -pthread -o "$SCRATCH/locks" "$SCRATCH/locks.c"; then
	answer "Who holds locks, and how long?"
	read -r _ reports _ deposits < <(grep ^reports "$SCRATCH/answer")
	same "locks in report()" "$(calls_in 4 report)" "$reports"
	same "locks in deposit()" "$(calls_in 4 deposit)" "$deposits"
	answer "Who allocates how much with malloc()?"
	same "blocks of 123 bytes in deposit()" \
		"$(grep '^fn:' "$SCRATCH/answer" | awk '$3 == 123 { print $2 }')" "$deposits"
	same "blocks in deposit()" "$(calls_in 2 deposit)" "$deposits"
else
	echo "note: no gcc"
fi

# ---- SQLite ------------------------------------------------------------------------------

if command -v sqlite3 >/dev/null; then
	cat >"$SCRATCH/shop.sql" <<'SQL'
create table t(a, b);
insert into t values (1, 'x'), (2, 'y');
select sum(a) from t;
select sum(a) from t;
SQL
	answer "Which SQL does a program run in SQLite, and how long does it take?"
	while read -r statement; do
		same "runs of $statement" "$(count "\"$statement\"")" \
			"$(grep -cxF "$statement" "$SCRATCH/shop.sql")"
	done < <(sort -u "$SCRATCH/shop.sql")
	same "the echo" "$(grep -cxFf "$SCRATCH/shop.sql" "$SCRATCH/answer")" 4
else
	echo "note: no sqlite3"
fi

# ---- Python ------------------------------------------------------------------------------

cat >"$SCRATCH/extensions.py" <<'PYTHON'
import sqlite3, sys, zlib

base = sqlite3.connect(":memory:", isolation_level=None)
print("ready", flush=True)
for line in sys.stdin:
    statements = 0
    base.set_trace_callback(lambda text: globals().update(statements=globals()["statements"] + 1))
    for i in range(int(line)):
        base.execute("select ?", (i,)).fetchall()
        zlib.compress(b"x" * 100000)
    print(statements, flush=True)
PYTHON
if [ -x /usr/bin/python3.11 ] && /usr/bin/python3.11 -c 'import sqlite3'; then
	start /usr/bin/python3.11 -I -S "$SCRATCH/extensions.py"
	save_state "$target_pid"
	answer_start "What do the C extensions of a Python program spend?" "$target_pid"
	ask 20
	answer_stop
	# Each statement has a row, and its end.
	same "steps" "$(awk '/sqlite3_step/ { print $4 }' "$SCRATCH/answer")" $((2 * answer))
	deflated=$(awk '/deflate/ { print $4 }' "$SCRATCH/answer")
	[ "$deflated" -ge 20 ] || fail "only $deflated calls of deflate()"
	same_state "$target_pid"
	end_target
fi

# ---- Redis -------------------------------------------------------------------------------

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then
	redis-server --port 0 --unixsocket "$SCRATCH/redis" --save '' --daemonize no \
		>"$SCRATCH/redis.log" 2>&1 &
	redis_pid=$!
	on_exit "end_process $redis_pid"
	cli() { redis-cli -s "$SCRATCH/redis" "$@"; }
	while ! cli ping 2>/dev/null | grep -q PONG; do pause; done
	save_state "$redis_pid"
	answer_start "Which commands does Redis run?" "$redis_pid"
	printf '%s\n' 'set a 1' 'set b 2' 'incr a' 'incr a' 'incr b' 'get a' 'lpush l x y' \
		'lrange l 0 -1' | cli >/dev/null
	answer_stop
	cli info commandstats | tr -d '\r' |
		sed -n 's/^cmdstat_\([a-z]*\):calls=\([0-9]*\).*/\1 \2/p' >"$SCRATCH/stats"
	for command in set incr get lpush lrange; do
		same "calls of $command" \
			"$(awk -v name=":${command}Command" 'index($1, name) { print $2 }' \
				"$SCRATCH/answer")" \
			"$(awk -v name="$command" '$1 == name { print $2 }' "$SCRATCH/stats")"
	done
	same_state "$redis_pid"
else
	echo "note: no redis-server"
fi

# ---- nginx -------------------------------------------------------------------------------

nginx_start()
{
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$SCRATCH/key.pem" -out \
		"$SCRATCH/cert.pem" -subj /CN=shop -days 2 2>/dev/null || die "no certificate"
	mkdir -p "$SCRATCH/temp"
	cat >"$SCRATCH/nginx.conf" <<-END
		worker_processes 1; daemon off; pid $SCRATCH/nginx.pid;
		events { }
		http {
			log_format upstream '\$proxy_host'; access_log $SCRATCH/access.log upstream;
			client_body_temp_path $SCRATCH/temp; proxy_temp_path $SCRATCH/temp;
			fastcgi_temp_path $SCRATCH/temp; uwsgi_temp_path $SCRATCH/temp;
			scgi_temp_path $SCRATCH/temp;
			upstream cart { server unix:$SCRATCH/back; }
			upstream search { server unix:$SCRATCH/back; }
			server { listen unix:$SCRATCH/back; access_log off; return 200 "back"; }
			server {
				listen unix:$SCRATCH/front; listen unix:$SCRATCH/tls ssl;
				ssl_certificate $SCRATCH/cert.pem; ssl_certificate_key $SCRATCH/key.pem;
				location /cart { proxy_pass http://cart; }
				location /search { proxy_pass http://search; }
			}
		}
	END
	"$nginx" -e "$SCRATCH/nginx.log" -p "$SCRATCH" -c "$SCRATCH/nginx.conf" \
		>"$SCRATCH/nginx.out" 2>&1 &
	nginx_pid=$!
	on_exit "stop_process $nginx_pid; wait $nginx_pid" # SIGKILL would leave its worker
	while [ ! -S "$SCRATCH/tls" ] || ! worker=$(pgrep -P "$nginx_pid"); do
		check_alive "$nginx_pid"
		pause
	done
}

# requests SOCKET PATH…: one connection for each
cat >"$SCRATCH/requests.py" <<'PYTHON'
import socket, ssl, sys

context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
for path in sys.argv[2:]:
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(sys.argv[1])
        end = context.wrap_socket(plain) if sys.argv[1].endswith("tls") else plain
        end.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        while end.recv(4096):
            pass
PYTHON
requests()
{
	/usr/bin/python3.11 -I "$SCRATCH/requests.py" "$@" || fail "no answer to $*"
}

nginx=$(command -v nginx || echo /usr/sbin/nginx)
if [ -x "$nginx" ] && [ -x /usr/bin/python3.11 ] && command -v openssl >/dev/null; then
	nginx_start
	save_state "$worker"
	answer_start "To which upstreams does nginx send requests?" "$nginx_pid"
	requests "$SCRATCH/front" /cart /search /cart /cart
	answer_stop
	for upstream in cart search; do
		same "requests to $upstream" "$(count "\"$upstream\"" 2)" \
			"$(grep -cx "$upstream" "$SCRATCH/access.log")"
	done
	answer_start "How long do TLS handshakes take in nginx?" "$nginx_pid"
	requests "$SCRATCH/tls" /cart /cart /cart
	answer_stop
	same "handshakes" "$(sed -n 's/^count \([0-9]*\) .*/\1/p' "$SCRATCH/answer")" 3
	same_state "$worker"
else
	echo "note: no nginx"
fi
finish
