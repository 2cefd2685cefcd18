# SPDX-License-Identifier: MIT
"""
The structs and constants of libprobe/include/probe that this package uses, for ctypes.

tests/integration/library/python_package.sh compares each size and offset with what the C compiler
says. Structs may grow with each version of the library, so it must be of the same version as this.
"""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    Union,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_longdouble,
    c_size_t,
    c_int8,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, List, Tuple

KEYS_MAX = 4
ARGS_MAX = 32
BUCKETS = 1921
COVERAGE_BYTES = 96

VALUE_NULL, VALUE_SIGNED, VALUE_UNSIGNED, VALUE_FLOAT = range(4)
VALUE_STRING, VALUE_TEXT, VALUE_BYTES, VALUE_STACK, VALUE_OTHER = range(4, 9)
SESSION_COUNT, SESSION_RECORD, SESSION_GATHER = range(3)
CONDITION_EXE, CONDITION_NAME, CONDITION_CGROUP, CONDITION_CONTAINER, CONDITION_USER = range(5)
CONDITION_COUNT = 5
TRACE_STARTED, TRACE_CAME, TRACE_UNTRACED, TRACE_GREW = range(4)
TRACE_DROPPED, TRACE_CLOSED = 10, 11
TRACER_ROWS, TRACER_HITS, TRACER_HITS_JSON = range(3)
PAIRING_NAMES = 3
ORDER_COUNT = 0
STACK_WHOLE = 0


def fields(*declared: Tuple[Any, str]) -> List[Tuple[str, Any]]:
    """The fields of a struct. As in C, those that follow each other share their type."""
    return [(name, kind) for kind, names in declared for name in names.split()]


class Error(Structure):
    _fields_ = fields((c_int, "code err"), (c_char_p, "message"))


class Number(Union):
    _fields_ = fields((c_int64, "i"), (c_uint64, "u"), (c_double, "f"))


class Value(Structure):
    _anonymous_ = ("_number",)
    _fields_ = fields(
        (c_int, "kind"),
        (c_bool, "truncated"),
        (c_uint8, "number"),
        (c_bool, "known"),
        (Number, "_number"),
        (c_void_p, "bytes"),
        (c_size_t, "length"),
    )


class Frame(Structure):
    _fields_ = fields(
        (c_uint64, "ip"),
        (c_char_p, "module symbol"),
        (c_uint64, "offset function"),
        (c_char_p, "file"),
        (c_int, "line"),
        (c_char_p, "build_id"),
    )


class Stack(Structure):
    _fields_ = fields((POINTER(POINTER(Frame)), "frames"), (c_size_t, "count"), (c_int, "end"))


class Hit(Structure):
    pass


Hit._fields_ = fields(
    (c_uint64, "time_ns"),
    (c_int, "pid tid cpu"),
    (c_size_t, "probe"),
    (c_uint64, "pc"),
    (POINTER(Value), "args"),
    (c_size_t, "arg_count"),
    (POINTER(Stack), "stack"),
    (Value, "filter"),
    (POINTER(Hit), "begin"),
    (c_uint64, "duration_ns frame"),
)


class Row(Structure):
    _fields_ = fields(
        (c_size_t, "probe begin"),
        (POINTER(Value), "keys"),
        (c_uint64, "count"),
        (c_bool, "has_value is_signed is_float"),
        (c_longdouble, "sum"),
        (Value, "min max last"),
        (c_uint64, "last_time_ns"),
        (POINTER(c_uint64), "buckets"),
        (c_double, "unit"),
        (c_uint64, "in_flight"),
    )


class Coverage(Structure):
    _fields_ = fields((c_size_t, "sites refused overwritten"))


class TableRow(Structure):
    _fields_ = fields(
        (c_char_p, "provider name begin_provider begin_name"),
        (Row, "row"),
        (c_uint64, "unmatched"),
        (c_double, "first"),
        (Coverage, "coverage"),
    )


class Arg(Structure):
    _fields_ = fields((c_char_p, "spec"), (c_uint32, "size"), (c_bool, "is_signed is_float"))


class Site(Structure):
    _fields_ = fields(
        (c_char_p, "provider name path build_id args_spec"),
        (c_uint64, "pc base semaphore size"),
        (c_char_p, "aliases"),
        (c_int, "pid"),
        (c_uint64, "bias"),
        (c_bool, "state_known enabled inconsistent"),
        (c_uint32, "refcount"),
        (c_int, "plan"),
    )


class Defect(Structure):
    _fields_ = fields((c_char_p, "path"), (c_uint64, "offset"), (c_char_p, "what"))


class Refusal(Structure):
    _fields_ = fields(
        (c_char_p, "provider name path"),
        (c_uint64, "pc"),
        (c_char_p, "reason"),
        (c_bool, "named"),
    )


class Report(Structure):
    """abi.py sets the fields, because the library says how many plans there are."""


def report_fields(plan_count: int) -> Any:
    return fields(
        (c_size_t, "probes sites"),
        (c_size_t * plan_count, "plans"),
        (POINTER(Refusal), "refusals"),
        (c_size_t, "refusal_count left"),
        (c_uint64, "stop_ns"),
        (POINTER(c_char_p), "notes"),
        (c_size_t, "note_count"),
    )


class Request(Structure):
    _fields_ = fields(
        (POINTER(c_void_p), "patterns"),
        (c_size_t, "pattern_count"),
        (c_bool, "keep_going later force atomic pairs many"),
        (POINTER(c_int), "plans"),
        (c_size_t, "plan_count"),
        (c_void_p, "catalogue"),
    )


class Gather(Structure):
    _fields_ = fields(
        (c_bool, "sum extremes last histogram"),
        (c_char_p, "value"),
        (c_char_p * KEYS_MAX, "keys"),
        (c_size_t, "key_count keys_max"),
        (c_int, "pairing"),
        (c_char_p, "match match_end"),
    )


class SessionOptions(Structure):
    _fields_ = fields(
        (c_int, "kind stack"),
        (c_uint16, "stack_bytes"),
        (c_bool, "begin_stacks lines"),
        (Gather, "gather"),
        (c_char_p, "filter"),
        (c_bool, "filter_value"),
        (c_void_p, "filters"),
        (c_size_t, "filter_count"),
        (c_bool, "spans"),
        (c_uint64, "span_min_ns"),
        (c_uint32, "sample_every sample_rate"),
        (c_bool, "overwrite"),
        (c_uint64, "wait_ns"),
        (c_char_p, "file"),
        (c_bool, "switched until_full"),
        (c_size_t, "ring_bytes"),
        (c_bool, "may_shrink"),
        (c_uint32, "together"),
        (c_uint16, "string_bytes"),
        (c_bool, "guess_strings"),
        (c_void_p, "catalogue"),
        (c_bool, "described texts follow_libraries"),
        (c_void_p, "watch"),
        (c_bool, "follow_children frames"),
    )


class ArgMeaning(Structure):
    _fields_ = fields(
        (c_char_p, "name type"),
        (c_int, "kind"),
        (c_uint8, "length"),
        (c_uint16, "offset"),
        (c_void_p, "words"),
        (c_size_t, "word_count"),
        (c_int8, "size"),
        (c_char_p, "place"),
        (c_bool, "is_hidden"),
    )


class Meaning(Structure):
    _fields_ = fields(
        (c_char_p, "provider name"),
        (POINTER(ArgMeaning), "args"),
        (c_size_t, "arg_count"),
        (c_bool, "open"),
        (c_char_p, "means needs inlined with takes"),
        (c_void_p, "ends"),
        (c_size_t, "end_count"),
        (c_void_p, "same"),
        (c_size_t, "same_count"),
    )


class SessionProbe(Structure):
    _fields_ = fields(
        (c_char_p, "provider name path"),
        (c_int, "role"),
        (c_uint32, "pair"),
        (c_uint64, "hits lost unmatched in_flight"),
        (Coverage, "coverage"),
        (POINTER(Meaning), "meaning"),
        (c_uint8 * ARGS_MAX, "args"),
    )


class ConditionValues(Structure):
    _fields_ = fields((POINTER(c_char_p), "values"), (c_size_t, "count"))


class Selection(Structure):
    _fields_ = fields(
        (ConditionValues * CONDITION_COUNT, "conditions"),
        (POINTER(c_int), "pids trees parents"),
        (c_size_t, "pid_count tree_count parent_count"),
        (c_bool, "later only_later"),
    )


class TraceTracer(Structure):
    _fields_ = fields(
        (POINTER(Request), "request"),
        (SessionOptions, "options"),
        (c_bool, "shares is_unordered is_apart"),
    )


class Traced(Structure):
    _fields_ = fields(
        (c_void_p, "data target session"),
        (c_size_t, "tracer"),
        (c_int, "pidfd"),
        (c_bool, "named later is_on has_ended is_replaced is_broken is_stuck is_read_by_user"),
        (c_bool, "is_kept"),
    )


class TraceTold(Structure):
    _fields_ = fields((c_size_t, "probes refusals notes"))


class TraceNews(Structure):
    _fields_ = fields(
        (c_int, "event"),
        (POINTER(Traced), "traced"),
        (POINTER(Error), "error"),
        (POINTER(Report), "report"),
        (TraceTold, "told"),
        (c_void_p, "site watched"),
        (POINTER(SessionProbe), "probe"),
        (c_uint64, "late_ns"),
        (c_size_t, "sites"),
        (c_uint64, "count"),
        (c_bool, "is_waiting"),
    )


class TraceHit(Structure):
    _fields_ = fields(
        (POINTER(Hit), "hit"),
        (POINTER(SessionProbe), "probes"),
        (c_char_p, "comm"),
        (c_size_t, "tracer"),
        (c_void_p, "traced"),
    )


class TraceTally(Structure):
    _fields_ = fields((c_uint64, "hits lost"))


class TraceProbe(Structure):
    _fields_ = fields(
        (c_void_p, "traced"),
        (c_size_t, "tracer"),
        (POINTER(SessionProbe), "probe"),
        (TraceTally, "tally"),
    )


TraceVisitor: Any = CFUNCTYPE(c_bool, POINTER(TraceHit), c_void_p)  # TraceVisitor() is NULL
TraceFull: Any = CFUNCTYPE(c_bool, c_void_p, c_bool, c_void_p)
TraceListener: Any = CFUNCTYPE(None, POINTER(TraceNews), c_void_p)


class TraceOptions(Structure):
    _fields_ = fields(
        (POINTER(TraceTracer), "tracers"),
        (c_size_t, "tracer_count"),
        (c_bool, "follow ends_heirs"),
        (c_void_p, "processes prepare start"),
        (TraceVisitor, "hit"),
        (c_void_p, "comm read"),
        (TraceFull, "is_full"),
        (TraceListener, "news"),
        (c_void_p, "data"),
    )
