#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of a server of metrics, good and bad.

get URL [ACCEPT]            prints the body
head URL [ACCEPT]           prints the status and the content type
query PROMETHEUS EXPR       prints the values of an expression
openmetrics FILE            reads OpenMetrics with Prometheus's strict parser for Python
bad URL                     does what no client should, and checks what comes of it
slow URL                    keeps as many connections as it can, sending a byte now and then, and
                            checks that each is closed in time and that others are served
"""
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


def request(url, accept=None):
    headers = {"Accept": accept} if accept else {}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60)


def get(url, accept=None):
    sys.stdout.buffer.write(request(url, accept).read())


def head(url, accept=None):
    answer = request(url, accept)
    print(answer.status, answer.headers["Content-Type"])


def query(prometheus, expression):
    url = prometheus + "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        result = json.load(request(url))["data"]["result"]
    except OSError as error:
        sys.exit(f"no answer: {error}")
    print(",".join(str(series["value"][1]) for series in result))


def openmetrics(path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    with open(path, encoding="utf-8") as file:
        for family in text_string_to_metric_families(file.read()):
            print(family.name, family.type, family.unit or "-", len(family.samples))


def connect(url):
    place = urllib.parse.urlsplit(url)
    return socket.create_connection((place.hostname, place.port), timeout=60)


def talk(url, data):
    """All that comes back; a server may also just close the connection."""
    answer = b""
    with connect(url) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while True:
                more = client.recv(1 << 16)
                if not more:
                    break
                answer += more
        except OSError:
            pass
    return answer


def bad(url):
    path = b"/metrics"
    for name, data, wanted in (
        ("no request", b"", (b"",)),
        ("noise", bytes(range(256)) * 20, (b"", b"HTTP/1.1 4", b"HTTP/1.1 5")),
        ("a TLS client", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), (b"", b"HTTP/1.1 4", b"HTTP/1.1 5")),
        ("a line too long", b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n", (b"", b"HTTP/1.1 414", b"HTTP/1.1 431")),
        ("too many headers", b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 50000 + b"\r\n", (b"", b"HTTP/1.1 431", b"HTTP/1.1 413")),
        ("another method", b"DELETE " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (b"HTTP/1.1 405",)),
        ("a body", b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx", (b"HTTP/1.1 405",)),
        ("another path", b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", (b"HTTP/1.1 404",)),
        ("another host's name", b"GET " + path + b" HTTP/1.1\r\nHost: evil.example:9100\r\n\r\n", (b"HTTP/1.1 421",)),
        ("an address", b"GET " + path + b" HTTP/1.1\r\nHost: [::1]:9100\r\n\r\n", (b"HTTP/1.1 200",)),
        ("its own name", b"GET " + path + b" HTTP/1.1\r\nHost: " + socket.gethostname().encode() + b"\r\n\r\n", (b"HTTP/1.1 200",)),
        ("an old client", b"GET " + path + b" HTTP/1.0\r\n\r\n", (b"HTTP/1.0 200", b"HTTP/1.1 200")),
        ("several requests", (b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") * 3, (b"HTTP/1.1 200",)),
    ):
        answer = talk(url, data)
        if not any(answer.startswith(start) if start else not answer for start in wanted):
            sys.exit(f"{name}: {answer[:200]!r}")
        # One answer a connection.
        if answer.count(b"HTTP/1.1 200") > 1:
            sys.exit(f"{name}: {answer.count(b'HTTP/1.1 200')} answers")
    answer = talk(url, b"HEAD " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    if not answer.startswith(b"HTTP/1.1 200") or not answer.endswith(b"\r\n\r\n"):
        sys.exit(f"HEAD: {answer[:200]!r}")
    # Many at once, each of which gets its answer in turn.
    clients = [connect(url) for _ in range(200)]
    for client in clients:
        client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for number, client in enumerate(clients):
        answer = client.recv(1 << 16)
        if not answer.startswith(b"HTTP/1.1 200"):
            sys.exit(f"connection {number} of {len(clients)}: {answer[:200]!r}")
        client.close()


def slow(url):
    """64 connections are served at once; later ones wait until the first are closed."""
    began = time.monotonic()
    clients = [connect(url) for _ in range(64)]
    start = b"GET /metrics HTTP/1.1\r\nX: "
    for client in clients:
        client.sendall(start)
        client.settimeout(0.01)
    waiting = connect(url)
    waiting.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while clients:
        if time.monotonic() - began > float(os.environ["TEST_SECONDS"]):
            sys.exit(f"{len(clients)} slow connections are still open")
        for client in list(clients):
            try:
                client.sendall(b"x")
                if client.recv(1) == b"":
                    clients.remove(client)
            except (TimeoutError, socket.timeout):
                pass
            except OSError:
                clients.remove(client)
        time.sleep(0.3)
    if not waiting.recv(1 << 16).startswith(b"HTTP/1.1 200"):
        sys.exit("the client that waited got nothing")
    print(f"closed after {time.monotonic() - began:.0f} s")


COMMANDS = {function.__name__: function for function in (get, head, query, openmetrics, bad, slow)}
try:
    COMMANDS[sys.argv[1]](*sys.argv[2:])
except urllib.error.URLError as error:
    sys.exit(f"{sys.argv[2]}: {error}")
