# SPDX-License-Identifier: MIT
"""
A record against the specification of CTF 2 (CTF2-SPEC-2.0, https://diamon.org/ctf/), without any
code of ours: every property of the metadata is one that its section has, of its type; every packet
and event is decoded by the procedures of section 6.

    ctf2.py RECORD [HITS]

HITS is what `probectl export --format=json` says of the record: the same hits, with all values.
"""
import json
import math
import struct
import sys
from pathlib import Path


def require(condition, *why):
    if not condition:
        sys.exit("ctf2.py: " + " ".join(map(str, why)))


# ---- Metadata: section 5 -----------------------------------------------------------------------


def is_integer(least=0, most=None):
    return lambda v: (isinstance(v, int) and not isinstance(v, bool) and v >= least
                      and (most is None or v <= most))


def is_text(*allowed):
    return lambda v: isinstance(v, str) and (not allowed or v in allowed)


def is_object(value):
    return isinstance(value, dict)


def is_align(value):
    return is_integer(1)(value) and value & (value - 1) == 0


def is_ranges(value):
    return (isinstance(value, list) and value
            and all(isinstance(r, list) and len(r) == 2 and r[0] <= r[1] for r in value))


def is_mappings(value):
    return is_object(value) and all(is_ranges(r) for r in value.values())


def is_roles(value):
    return isinstance(value, list) and all(isinstance(r, str) for r in value)


def is_class(value):
    check_class(value)
    return True


def is_members(value):
    names = [m["name"] for m in value]
    require(len(names) == len(set(names)), "two members have one name:", names)
    for member in value:
        check_object(member, {"name": is_text(), "field-class": is_class}, {}, "a member")
    return True


def is_location(value):
    check_object(value, {"path": lambda p: p and p[-1] is not None},
                 {"origin": is_text(*ORIGINS)}, "a location")
    return True


ORIGINS = ("packet-header", "packet-context", "event-record-header",
           "event-record-common-context", "event-record-specific-context", "event-record-payload")
ORDER = is_text("little-endian", "big-endian")
BITS = {"length": is_integer(1), "byte-order": ORDER}
ALIGNED = {"alignment": is_align, "bit-order": is_text("first-to-last", "last-to-first")}
INTEGER = {**ALIGNED, "preferred-display-base": lambda v: v in (2, 8, 10, 16),
           "mappings": is_mappings}
ENCODING = {"encoding": is_text("utf-8", "utf-16be", "utf-16le", "utf-32be", "utf-32le")}
ELEMENT = {"element-field-class": is_class}
ARRAY = {"minimum-alignment": is_align}
LENGTH = {"length": is_integer(0)}
LOCATION = {"length-field-location": is_location}
# type: what it must have, what it may have
CLASSES = {
    "fixed-length-unsigned-integer": (BITS, {**INTEGER, "roles": is_roles}),
    "fixed-length-signed-integer": (BITS, INTEGER),
    "fixed-length-floating-point-number": (BITS, ALIGNED),
    "null-terminated-string": ({}, ENCODING),
    "static-length-string": (LENGTH, ENCODING),
    "dynamic-length-string": (LOCATION, ENCODING),
    "static-length-blob": (LENGTH, {"media-type": is_text(), "roles": is_roles}),
    "dynamic-length-blob": (LOCATION, {"media-type": is_text()}),
    "static-length-array": ({**LENGTH, **ELEMENT}, ARRAY),
    "dynamic-length-array": ({**LOCATION, **ELEMENT}, ARRAY),
    "structure": ({}, {"member-classes": is_members, "minimum-alignment": is_align}),
}
NAMED = {"namespace": is_text(), "name": is_text(), "uid": is_text()}
FRAGMENTS = {
    "preamble": ({"version": lambda v: v == 2},
                 {"uuid": lambda v: len(v) == 16 and all(map(is_integer(0, 255), v))}),
    "trace-class": ({}, {**NAMED, "packet-header-field-class": is_class,
                         "environment": lambda v: all(isinstance(e, (str, int))
                                                      for e in v.values())}),
    "clock-class": ({"id": is_text(), "frequency": is_integer(1)},
                    {**NAMED, "origin": is_text("unix-epoch"), "description": is_text(),
                     "precision": is_integer(), "accuracy": is_integer(),
                     "offset-from-origin": is_object}),
    "data-stream-class": ({}, {**NAMED, "id": is_integer(), "default-clock-class-id": is_text(),
                               "packet-context-field-class": is_class,
                               "event-record-header-field-class": is_class,
                               "event-record-common-context-field-class": is_class}),
    "event-record-class": ({}, {**NAMED, "id": is_integer(), "data-stream-class-id": is_integer(),
                                "specific-context-field-class": is_class,
                                "payload-field-class": is_class}),
}


def check_object(value, must, may, what):
    require(is_object(value), what, "is no object:", value)
    for name in must:
        require(name in value, what, "has no", name, value)
    for name, member in value.items():
        if name == "attributes":  # by namespace: anything
            require(is_object(member), "attributes are no object")
            continue
        check = must.get(name) or may.get(name)
        require(check, what, "may not have", name)
        require(check(member), what, ":", name, "may not be", member)


def check_class(value):
    kind = is_object(value) and value.get("type")
    require(kind in CLASSES, "no class of fields:", value)
    must, may = CLASSES[kind]
    check_object({k: v for k, v in value.items() if k != "type"}, must, may, kind)
    if kind == "fixed-length-floating-point-number":
        require(value["length"] in (16, 32, 64, 128), "a float of", value["length"], "bits")


def roles_of(structure):
    return [role for m in structure.get("member-classes", ())
            for role in m["field-class"].get("roles", ())]


def check_all_have_roles(structure, allowed):
    """Headers have nothing but what a role explains: 5.6 and 5.8."""
    for member in structure.get("member-classes", ()):
        roles = member["field-class"].get("roles", ())
        require(roles and set(roles) <= allowed, "a header's field without a role:", member)


def no_twins(pairs):
    require(len({k for k, _ in pairs}) == len(pairs), "a property twice:", pairs)
    return dict(pairs)


def fragments(text):
    require(text[:1] == b"\x1e", "no text sequence (RFC 7464)")
    for piece in text[1:].split(b"\x1e"):
        require(piece.endswith(b"\n"), "a text does not end with a line feed")
        yield json.loads(piece.decode("utf-8"), object_pairs_hook=no_twins)


class Metadata:
    def __init__(self, text):
        self.uuid, self.header, self.trace = None, None, None
        self.clocks, self.streams, self.events = {}, {}, {}
        for n, fragment in enumerate(fragments(text)):
            kind = fragment.get("type")
            require(kind in FRAGMENTS, "no fragment:", fragment)
            require((kind == "preamble") == (n == 0), "the preamble is not the first")
            must, may = FRAGMENTS[kind]
            check_object({k: v for k, v in fragment.items() if k != "type"}, must, may, kind)
            getattr(self, "add_" + kind.replace("-", "_"))(fragment)

    def add_preamble(self, it):
        self.uuid = bytes(it["uuid"])

    def add_trace_class(self, it):
        require(self.trace is None and not self.streams, "a trace class after others")
        self.trace = it
        self.header = it["packet-header-field-class"]
        check_all_have_roles(self.header, {"packet-magic-number", "metadata-stream-uuid",
                                           "data-stream-class-id", "data-stream-id"})
        first = self.header["member-classes"][0]["field-class"]
        require(first["roles"] == ["packet-magic-number"] and first["length"] == 32, "no magic")

    def add_clock_class(self, it):
        require(it["id"] not in self.clocks, "two clocks with one id")
        offset = it.get("offset-from-origin", {})
        check_object(offset, {}, {"seconds": is_integer(-10**12), "cycles":
                                  is_integer(0, it["frequency"] - 1)}, "an offset")
        self.clocks[it["id"]] = it

    def add_data_stream_class(self, it):
        number = it.get("id", 0)
        require(number not in self.streams, "two stream classes with one id")
        require(it["default-clock-class-id"] in self.clocks, "no such clock before it")
        check_all_have_roles(it["event-record-header-field-class"],
                             {"default-clock-timestamp", "event-record-class-id"})
        require(set(roles_of(it["packet-context-field-class"])) == {
            "default-clock-timestamp", "packet-end-default-clock-timestamp",
            "packet-content-length", "packet-total-length", "packet-sequence-number",
            "discarded-event-record-counter-snapshot"}, "the roles of a packet's context")
        self.streams[number] = it

    def add_event_record_class(self, it):
        key = it.get("data-stream-class-id", 0), it.get("id", 0)
        require(key[0] in self.streams, "an event before its stream")
        require(key not in self.events, "two event classes with one id")
        self.events[key] = it


# ---- Streams: section 6 ------------------------------------------------------------------------


def align_of(cls):
    kind = cls["type"]
    if kind.startswith("fixed-length"):
        return cls.get("alignment", 1)
    if kind == "structure":
        return max([cls.get("minimum-alignment", 1)]
                   + [align_of(m["field-class"]) for m in cls.get("member-classes", ())])
    if kind.endswith("-array"):
        return max(cls.get("minimum-alignment", 1), align_of(cls["element-field-class"]))
    return 8


class Packet:
    """Bits from the beginning of a packet on."""

    def __init__(self, data, start, roots):
        self.data, self.start, self.at, self.roots = data, start, 0, roots
        self.roles = {}

    def align(self, to):
        self.at = -(-self.at // to) * to

    def take_bytes(self, count):
        self.align(8)
        begin = self.start + self.at // 8
        require(begin + count <= len(self.data), "bytes behind the end")
        self.at += 8 * count
        return self.data[begin:begin + count]

    def take_bits(self, cls):
        self.align(cls.get("alignment", 1))
        require(cls["byte-order"] == "little-endian", "big-endian")
        first, length = self.at, cls["length"]
        self.at += length
        begin, end = self.start + first // 8, self.start + -(-self.at // 8)
        require(end <= len(self.data), "bits behind the end")
        return int.from_bytes(self.data[begin:end], "little") >> first % 8 & (1 << length) - 1

    def length_of(self, cls, siblings):
        location = cls["length-field-location"]
        value = self.roots[location["origin"]] if "origin" in location else siblings
        for name in location["path"]:
            value = value[name]
        require(isinstance(value, int) and value >= 0, "a length is", value)
        return value

    def take(self, cls, siblings):
        kind = cls["type"]
        if kind == "structure":
            return self.take_structure(cls, {})
        if kind == "null-terminated-string":
            self.align(8)
            begin = self.start + self.at // 8
            end = self.data.index(b"\0", begin)
            return self.take_bytes(end + 1 - begin)[:-1]
        if kind.startswith("fixed-length"):
            value = self.take_bits(cls)
            for role in cls.get("roles", ()):
                self.roles[role] = value
            if kind == "fixed-length-signed-integer" and value >> cls["length"] - 1:
                value -= 1 << cls["length"]
            if kind == "fixed-length-floating-point-number":
                size = cls["length"] // 8
                value = struct.unpack({4: "<f", 8: "<d"}[size], value.to_bytes(size, "little"))[0]
            return value
        length = cls["length"] if "length" in cls else self.length_of(cls, siblings)
        self.align(align_of(cls))
        if kind.endswith("-array"):
            return [self.take(cls["element-field-class"], siblings) for _ in range(length)]
        data = self.take_bytes(length)
        for role in cls.get("roles", ()):
            self.roles[role] = data
        return data.split(b"\0")[0] if kind.endswith("-string") else data

    def take_structure(self, cls, into):
        self.align(align_of(cls))
        for member in cls.get("member-classes", ()):
            into[member["name"]] = self.take(member["field-class"], into)
        return into


def take_root(packet, origin, cls):
    packet.roots[origin] = {}
    if cls is not None:
        packet.take_structure(cls, packet.roots[origin])
    return packet.roots[origin]


def time_of(clock, cycles):
    offset = clock.get("offset-from-origin", {})
    cycles += offset.get("cycles", 0)
    return offset.get("seconds", 0) * 10**9 + cycles * 10**9 // clock["frequency"]


def events_of(metadata, data):
    """(time, event class, context, payload, CPU) of all events of a stream."""
    start, sequence = 0, 0
    while start < len(data):
        packet = Packet(data, start, {})
        take_root(packet, "packet-header", metadata.header)
        require(packet.roles["packet-magic-number"] == 0xc1fc1fc1, "no magic at", start)
        require(packet.roles["metadata-stream-uuid"] == metadata.uuid, "another uuid")
        number = packet.roles["data-stream-class-id"]
        stream = metadata.streams[number]
        clock = metadata.clocks[stream["default-clock-class-id"]]
        context = take_root(packet, "packet-context", stream["packet-context-field-class"])
        content, size = (packet.roles["packet-content-length"],
                         packet.roles["packet-total-length"])
        first, last = (packet.roles["default-clock-timestamp"],
                       packet.roles["packet-end-default-clock-timestamp"])
        require(content <= size and size % 8 == 0 and first <= last, "a packet makes no sense")
        require(packet.roles["packet-sequence-number"] == sequence, "a packet is missing")
        sequence += 1
        before = first
        while packet.at < content:
            take_root(packet, "event-record-header", stream["event-record-header-field-class"])
            cycles = packet.roles["default-clock-timestamp"]
            require(before <= cycles <= last, "an event's time is not in order, or its packet")
            before = cycles
            cls = metadata.events[number, packet.roles["event-record-class-id"]]
            its = take_root(packet, "event-record-common-context",
                            stream.get("event-record-common-context-field-class"))
            payload = take_root(packet, "event-record-payload", cls.get("payload-field-class"))
            require(packet.at <= content, "an event is longer than its packet")
            yield time_of(clock, cycles), cls, dict(its), dict(payload), context["cpu_id"]
        start += size // 8
    require(start == len(data), "the last packet is cut off")


# ---- Hits --------------------------------------------------------------------------------------


def value_of(payload, name, cls):
    """An argument as export says it: its text where it has one, null where it was unreadable."""
    mappings = cls.get("mappings", {})
    if cls["type"] == "structure" or "unreadable" in mappings:
        return None
    text = name + "_text"
    if (text in payload and not payload.get(text + "_unreadable") and payload[text]
            and not any(c < 32 and c not in b"\t\n\v\f\r" or c == 127 for c in payload[text])):
        return payload[text].decode("utf-8", "replace")
    if payload.get(name + "_unreadable") or payload.get(name + "_readable") == 0:
        return None
    value = payload[name]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    if cls["type"].endswith("-blob"):
        return value.hex()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def is_arg(name):
    return name.startswith("arg") and name[3:].replace("_", "").isdigit()


def args_of(cls, payload):
    """In the order of what is said first about each."""
    members = {m["name"]: m["field-class"] for m in cls["payload-field-class"]["member-classes"]}
    names = []
    for name in members:
        while not is_arg(name) and "_" in name:
            name = name.rpartition("_")[0]
        if is_arg(name) and name not in names:
            names.append(name)
    return [value_of(payload, name, members[name]) for name in names]


def main():
    record = Path(sys.argv[1])
    metadata = Metadata((record / "metadata").read_bytes())
    require(metadata.trace["environment"]["tracer_name"] == "probectl", "whose is it?")
    hits, frames = [], set()
    for stream in sorted(record.iterdir()):
        if stream.name == "metadata":
            continue
        for time, cls, context, payload, cpu in events_of(metadata, stream.read_bytes()):
            if cls["name"] == "probectl:frame":
                frames.add(payload["ip"])
            if cls["name"].startswith("probectl:"):
                continue
            require(set(context.get("callstack_user", ())) <= frames, "a frame has no name")
            require(cls["attributes"]["babeltrace.org,2020"]["emf-uri"], "no file")
            hits.append([cls["name"], args_of(cls, payload), cpu, time])
    print(len(hits))
    if len(sys.argv) < 3:
        return
    theirs = []
    for line in open(sys.argv[2]):
        hit = json.loads(line)
        if "name" in hit:
            theirs.append([f"{hit['provider']}:{hit['name']}", hit["args"], hit["cpu"], hit["ts"]])
    hits.sort(key=lambda hit: (str(hit[:-1]), hit[-1]))
    theirs.sort(key=lambda hit: (str(hit[:-1]), hit[-1]))
    require(len(hits) == len(theirs), len(hits), "hits, and not", len(theirs))
    for ours, other in zip(hits, theirs):
        # An offset and a number of cycles may be rounded down to nanoseconds one by one.
        require(ours[:-1] == other[:-1] and 0 <= ours[-1] - other[-1] <= 1, ours, "is not", other)


main()
