# SPDX-License-Identifier: MIT
"""Starts a server, asks it without end, and checks its answers; answers lines as victim.c does.

qemu's answer is what its guest computes in a boot sector: then it boots again.
"""
import os
import select
import socket
import subprocess
import sys
import time

kind, folder, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
# Adds and rotates 65,536 times, prints two letters of the sum to the serial port, and resets.
boot_sector = bytes.fromhex(
    "31c0 31c9 01c8 d1c0 e2fa 89c3 baf803 88d8 240f 0441 ee 88f8 240f 0441 ee"
    "b00a ee b0fe e664 f4 ebfd"
).ljust(510, b"\0") + b"\x55\xaa"


def start():
    if kind == "redis":
        return subprocess.Popen(
            ["redis-server", "--port", str(port), "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
    if kind == "qemu":
        with open(f"{folder}/floppy", "wb") as floppy:
            floppy.write(boot_sector.ljust(1440 * 1024, b"\0"))
        return subprocess.Popen(
            ["qemu-system-x86_64", "-display", "none", "-monitor", "none", "-serial", "stdio"]
            + ["-drive", f"file={folder}/floppy,format=raw,if=floppy", "-boot", "a", "-m", "32"]
            + ["-nic", "none"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it tells which signal ended it
        )
    with open(f"{folder}/page.html", "w") as page:
        page.write("".join(f"line {i}\n" for i in range(3000)))
    with open(f"{folder}/nginx.conf", "w") as settings:
        settings.write(
            f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;"
            "events { worker_connections 64; } http { access_log off; gzip on;"
            f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
        )
    return subprocess.Popen(["nginx", "-p", folder, "-c", f"{folder}/nginx.conf"])


def exchange(request, enough):
    with socket.create_connection(("127.0.0.1", port), 60) as server:
        server.sendall(request)
        answer = b""
        while not enough(answer):
            part = server.recv(1 << 16)
            if not part:
                break
            answer += part
        return answer


def work():
    if kind == "qemu":
        return server.stdout.readline()
    if kind == "redis":
        commands = ["FLUSHALL", "SET a 1", "INCRBY a 41", "RPUSH l 3 1 2", "SORT l", "ZADD z 2 b 1 a"]
        commands += ["ZRANGE z 0 -1", "EVAL return{1,2} 0", "GET a", "QUIT"]
        return exchange("".join(c + "\r\n" for c in commands).encode(), lambda answer: False)
    answer = exchange(
        b"GET /page.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n", lambda answer: False
    )
    return answer.split(b"\r\n\r\n", 1)[-1]


server = start()
for _ in range(600):
    try:
        first = work()
        break
    except OSError:
        time.sleep(0.1)
rounds = wrong = 0
print("ready", server.pid, flush=True)
while True:
    rounds += 1
    wrong += work() != first
    if select.select([sys.stdin], [], [], 0)[0]:
        if sys.stdin.readline() != "ping\n":
            break
        print(f"rounds {rounds} wrong {wrong} interrupted 0 late 0", flush=True)
server.terminate()
server.wait()
os._exit(1 if wrong or server.returncode not in (0, -15) else 0)
