#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A collector of OpenTelemetry that takes metrics and spans as JSON, and checks them.

    collector.py FOLDER [FAILURES [STATUS]]

Prints its port. What is valid goes into FOLDER/metrics and FOLDER/spans, one object for each point
or span; what is not, into FOLDER/errors. The first FAILURES requests get STATUS (default: 503); with 200, five
spans of each are rejected.

SCHEMA is what the messages of opentelemetry-proto 1.x have that may be sent (metrics.proto,
trace.proto, common.proto, resource.proto): names in JSON and types. All others are unknown.
"""
import http.server
import json
import os
import sys

ANY = {"stringValue": str, "boolValue": bool, "intValue": "int64", "doubleValue": "double"}
NUMBER = {
    "attributes": ["KeyValue"], "startTimeUnixNano": "uint64", "timeUnixNano": "uint64",
    "asDouble": "double", "asInt": "int64",
}
SCHEMA = {
    "AnyValue": ANY,
    "KeyValue": {"key": str, "value": "AnyValue"},
    "Resource": {"attributes": ["KeyValue"]},
    "Scope": {"name": str, "version": str, "attributes": ["KeyValue"]},
    "MetricsRequest": {"resourceMetrics": ["ResourceMetrics"]},
    "ResourceMetrics": {"resource": "Resource", "scopeMetrics": ["ScopeMetrics"], "schemaUrl": str},
    "ScopeMetrics": {"scope": "Scope", "metrics": ["Metric"], "schemaUrl": str},
    "Metric": {"name": str, "description": str, "unit": str, "gauge": "Gauge", "sum": "Sum", "histogram": "Histogram"},
    "Gauge": {"dataPoints": ["Number"]},
    "Sum": {"dataPoints": ["Number"], "aggregationTemporality": "enum", "isMonotonic": bool},
    "Histogram": {"dataPoints": ["HistogramPoint"], "aggregationTemporality": "enum"},
    "Number": NUMBER,
    "HistogramPoint": {
        "attributes": ["KeyValue"], "startTimeUnixNano": "uint64", "timeUnixNano": "uint64",
        "count": "uint64", "sum": "double", "bucketCounts": ["uint64"], "explicitBounds": ["double"],
        "min": "double", "max": "double",
    },
    "TraceRequest": {"resourceSpans": ["ResourceSpans"]},
    "ResourceSpans": {"resource": "Resource", "scopeSpans": ["ScopeSpans"], "schemaUrl": str},
    "ScopeSpans": {"scope": "Scope", "spans": ["Span"], "schemaUrl": str},
    "Span": {
        "traceId": 16, "spanId": 8, "parentSpanId": 8, "traceState": str, "name": str, "kind": "enum",
        "startTimeUnixNano": "uint64", "endTimeUnixNano": "uint64", "attributes": ["KeyValue"], "status": "Status",
    },
    "Status": {"message": str, "code": "enum"},
}


def check(value, kind, where):
    """Raises ValueError if a value is not of a kind."""
    def wrong(what):
        raise ValueError(f"{where}: {what}: {value!r}")

    if isinstance(kind, list):
        if not isinstance(value, list):
            wrong("no list")
        for index, item in enumerate(value):
            check(item, kind[0], f"{where}[{index}]")
    elif isinstance(kind, int):
        if not isinstance(value, str) or len(value) != 2 * kind or not int(value, 16):
            wrong(f"no identifier of {kind} bytes")
    elif kind in ("uint64", "int64"):
        # Numbers lose digits above 2^53: OTLP allows them, we do not use them.
        if not isinstance(value, str) or str(int(value)) != value:
            wrong("no whole number as a string")
        low, high = (0, 2**64) if kind == "uint64" else (-(2**63), 2**63)
        if not low <= int(value) < high:
            wrong(f"no {kind}")
    elif kind == "enum":
        if type(value) is not int:
            wrong("no number of an enumeration")
    elif kind == "double":
        if type(value) not in (int, float) and value not in ("NaN", "Infinity", "-Infinity"):
            wrong("no number")
    elif kind in SCHEMA:
        if not isinstance(value, dict):
            wrong("no object")
        for name, item in value.items():
            if name not in SCHEMA[kind]:
                wrong(f"{kind} has no {name}")
            check(item, SCHEMA[kind][name], f"{where}.{name}")
        if kind == "AnyValue" and len(value) > 1 or kind == "KeyValue" and len(value) != 2:
            wrong(f"no {kind}")
    elif type(value) is not kind:
        wrong(f"no {kind.__name__}")


def attributes(items):
    result = {item["key"]: next(iter(item["value"].values()), None) for item in items}
    if len(result) != len(items):
        raise ValueError(f"an attribute is there twice: {items}")
    return result


def points(request):
    for resource in request["resourceMetrics"]:
        process = attributes(resource["resource"]["attributes"])
        for metric in resource["scopeMetrics"][0]["metrics"]:
            data = [name for name in ("gauge", "sum", "histogram") if name in metric]
            if len(data) != 1:
                raise ValueError(f"{metric['name']} has {data}")
            data = data[0]
            if data != "gauge" and metric[data]["aggregationTemporality"] != 2:
                raise ValueError(f"{metric['name']} is not cumulative")
            for point in metric[data]["dataPoints"]:
                its = {"name": metric["name"], "unit": metric["unit"], "type": data, **process, **attributes(point["attributes"])}
                if int(point["startTimeUnixNano"]) > int(point["timeUnixNano"]):
                    raise ValueError(f"{metric['name']} ends before it begins")
                if data == "histogram":
                    counts = [int(count) for count in point["bucketCounts"]]
                    bounds = point["explicitBounds"]
                    if len(counts) != len(bounds) + 1 or sum(counts) != int(point["count"]) or sorted(set(bounds)) != bounds:
                        raise ValueError(f"{metric['name']} is no histogram: {point}")
                    its.update(count=int(point["count"]), sum=point["sum"], counts=counts, bounds=bounds)
                else:
                    its["value"] = int(point["asInt"]) if "asInt" in point else point["asDouble"]
                yield its


def spans(request):
    for resource in request["resourceSpans"]:
        process = attributes(resource["resource"]["attributes"])
        for span in resource["scopeSpans"][0]["spans"]:
            if int(span["startTimeUnixNano"]) > int(span["endTimeUnixNano"]):
                raise ValueError(f"a span ends before it begins: {span}")
            yield {**process, **span, "attributes": attributes(span["attributes"])}


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    failures, status = 0, 503
    folder = None
    kinds = {"/v1/metrics": ("MetricsRequest", points, "metrics"), "/v1/traces": ("TraceRequest", spans, "spans")}

    def answer(self, status, body=b"{}"):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if Collector.failures > 0:
            Collector.failures -= 1
            self.answer(Collector.status, b'{"partialSuccess":{"rejectedSpans":"5","errorMessage":"no"}}')
            return
        with open(os.path.join(self.folder, "keys"), "a", encoding="utf-8") as file:
            print(self.headers["X-Key"], file=file)
        try:
            if self.headers["Content-Type"] != "application/json":
                raise ValueError(f"Content-Type: {self.headers['Content-Type']}")
            kind, read, name = self.kinds[self.path]
            # Strict: NaN and Infinity are no JSON.
            request = json.loads(body.decode("utf-8"), parse_constant=lambda word: sys.exit(word))
            check(request, kind, kind)
            lines = [json.dumps(item) for item in read(request)]
            with open(os.path.join(self.folder, name), "a", encoding="utf-8") as file:
                file.write("".join(line + "\n" for line in lines))
        except (KeyError, ValueError) as error:
            with open(os.path.join(self.folder, "errors"), "a", encoding="utf-8") as file:
                file.write(f"{self.path}: {error!r}\n")
            self.answer(400)
            return
        self.answer(200, b'{"partialSuccess":{}}')

    def log_message(self, *_):
        pass


Collector.folder = sys.argv[1]
Collector.failures = int(sys.argv[2]) if len(sys.argv) > 2 else 0
Collector.status = int(sys.argv[3]) if len(sys.argv) > 3 else 503
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
