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
from typing import Any

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


class Error(Structure):
    _fields_ = [("code", c_int), ("err", c_int), ("message", c_char_p)]


class Number(Union):
    _fields_ = [("i", c_int64), ("u", c_uint64), ("f", c_double)]


class Value(Structure):
    _anonymous_ = ("_number",)
    _fields_ = [
        ("kind", c_int),
        ("truncated", c_bool),
        ("number", c_uint8),
        ("known", c_bool),
        ("_number", Number),
        ("bytes", c_void_p),
        ("length", c_size_t),
    ]


class Frame(Structure):
    _fields_ = [
        ("ip", c_uint64),
        ("module", c_char_p),
        ("symbol", c_char_p),
        ("offset", c_uint64),
        ("function", c_uint64),
        ("file", c_char_p),
        ("line", c_int),
        ("build_id", c_char_p),
    ]


class Stack(Structure):
    _fields_ = [("frames", POINTER(POINTER(Frame))), ("count", c_size_t), ("end", c_int)]


class Hit(Structure):
    pass


Hit._fields_ = [
    ("time_ns", c_uint64),
    ("pid", c_int),
    ("tid", c_int),
    ("cpu", c_int),
    ("probe", c_size_t),
    ("pc", c_uint64),
    ("args", POINTER(Value)),
    ("arg_count", c_size_t),
    ("stack", POINTER(Stack)),
    ("filter", Value),
    ("begin", POINTER(Hit)),
    ("duration_ns", c_uint64),
]


class Row(Structure):
    _fields_ = [
        ("probe", c_size_t),
        ("begin", c_size_t),
        ("keys", POINTER(Value)),
        ("count", c_uint64),
        ("has_value", c_bool),
        ("is_signed", c_bool),
        ("is_float", c_bool),
        ("sum", c_longdouble),
        ("min", Value),
        ("max", Value),
        ("last", Value),
        ("last_time_ns", c_uint64),
        ("buckets", POINTER(c_uint64)),
        ("unit", c_double),
        ("in_flight", c_uint64),
    ]


class Coverage(Structure):
    _fields_ = [("sites", c_size_t), ("refused", c_size_t), ("overwritten", c_size_t)]


class TableRow(Structure):
    _fields_ = [
        ("provider", c_char_p),
        ("name", c_char_p),
        ("begin_provider", c_char_p),
        ("begin_name", c_char_p),
        ("row", Row),
        ("unmatched", c_uint64),
        ("first", c_double),
        ("coverage", Coverage),
    ]


class Arg(Structure):
    _fields_ = [("spec", c_char_p), ("size", c_uint32), ("is_signed", c_bool), ("is_float", c_bool)]


class Site(Structure):
    _fields_ = [
        ("provider", c_char_p),
        ("name", c_char_p),
        ("path", c_char_p),
        ("build_id", c_char_p),
        ("args_spec", c_char_p),
        ("pc", c_uint64),
        ("base", c_uint64),
        ("semaphore", c_uint64),
        ("size", c_uint64),
        ("aliases", c_char_p),
        ("pid", c_int),
        ("bias", c_uint64),
        ("state_known", c_bool),
        ("enabled", c_bool),
        ("inconsistent", c_bool),
        ("refcount", c_uint32),
        ("plan", c_int),
    ]


class Defect(Structure):
    _fields_ = [("path", c_char_p), ("offset", c_uint64), ("what", c_char_p)]


class Refusal(Structure):
    _fields_ = [
        ("provider", c_char_p),
        ("name", c_char_p),
        ("path", c_char_p),
        ("pc", c_uint64),
        ("reason", c_char_p),
        ("named", c_bool),
    ]


class Report(Structure):
    """abi.py sets the fields, because the library says how many plans there are."""


def report_fields(plan_count: int) -> Any:
    return [
        ("probes", c_size_t),
        ("sites", c_size_t),
        ("plans", c_size_t * plan_count),
        ("refusals", POINTER(Refusal)),
        ("refusal_count", c_size_t),
        ("left", c_size_t),
        ("stop_ns", c_uint64),
        ("notes", POINTER(c_char_p)),
        ("note_count", c_size_t),
    ]


class Request(Structure):
    _fields_ = [
        ("patterns", POINTER(c_void_p)),
        ("pattern_count", c_size_t),
        ("keep_going", c_bool),
        ("later", c_bool),
        ("force", c_bool),
        ("atomic", c_bool),
        ("pairs", c_bool),
        ("many", c_bool),
        ("plans", POINTER(c_int)),
        ("plan_count", c_size_t),
        ("catalogue", c_void_p),
    ]


class Gather(Structure):
    _fields_ = [
        ("sum", c_bool),
        ("extremes", c_bool),
        ("last", c_bool),
        ("histogram", c_bool),
        ("value", c_char_p),
        ("keys", c_char_p * KEYS_MAX),
        ("key_count", c_size_t),
        ("keys_max", c_size_t),
        ("pairing", c_int),
        ("match", c_char_p),
        ("match_end", c_char_p),
    ]


class SessionOptions(Structure):
    _fields_ = [
        ("kind", c_int),
        ("stack", c_int),
        ("stack_bytes", c_uint16),
        ("begin_stacks", c_bool),
        ("lines", c_bool),
        ("gather", Gather),
        ("filter", c_char_p),
        ("filter_value", c_bool),
        ("filters", c_void_p),
        ("filter_count", c_size_t),
        ("spans", c_bool),
        ("span_min_ns", c_uint64),
        ("sample_every", c_uint32),
        ("sample_rate", c_uint32),
        ("overwrite", c_bool),
        ("wait_ns", c_uint64),
        ("file", c_char_p),
        ("switched", c_bool),
        ("until_full", c_bool),
        ("ring_bytes", c_size_t),
        ("may_shrink", c_bool),
        ("together", c_uint32),
        ("string_bytes", c_uint16),
        ("guess_strings", c_bool),
        ("catalogue", c_void_p),
        ("described", c_bool),
        ("texts", c_bool),
        ("follow_libraries", c_bool),
        ("watch", c_void_p),
        ("follow_children", c_bool),
    ]


class ArgMeaning(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_char_p),
        ("kind", c_int),
        ("length", c_uint8),
        ("offset", c_uint16),
        ("words", c_void_p),
        ("word_count", c_size_t),
        ("size", c_int8),
        ("place", c_char_p),
        ("is_hidden", c_bool),
    ]


class Meaning(Structure):
    _fields_ = [
        ("provider", c_char_p),
        ("name", c_char_p),
        ("args", POINTER(ArgMeaning)),
        ("arg_count", c_size_t),
        ("open", c_bool),
        ("means", c_char_p),
        ("needs", c_char_p),
        ("inlined", c_char_p),
        ("with", c_char_p),
        ("takes", c_char_p),
        ("ends", c_void_p),
        ("end_count", c_size_t),
        ("same", c_void_p),
        ("same_count", c_size_t),
    ]


class SessionProbe(Structure):
    _fields_ = [
        ("provider", c_char_p),
        ("name", c_char_p),
        ("path", c_char_p),
        ("role", c_int),
        ("pair", c_uint32),
        ("hits", c_uint64),
        ("lost", c_uint64),
        ("unmatched", c_uint64),
        ("in_flight", c_uint64),
        ("coverage", Coverage),
        ("meaning", POINTER(Meaning)),
        ("args", c_uint8 * ARGS_MAX),
    ]


class ConditionValues(Structure):
    _fields_ = [("values", POINTER(c_char_p)), ("count", c_size_t)]


class Selection(Structure):
    _fields_ = [
        ("conditions", ConditionValues * CONDITION_COUNT),
        ("pids", POINTER(c_int)),
        ("trees", POINTER(c_int)),
        ("parents", POINTER(c_int)),
        ("pid_count", c_size_t),
        ("tree_count", c_size_t),
        ("parent_count", c_size_t),
        ("later", c_bool),
        ("only_later", c_bool),
    ]


class TraceTracer(Structure):
    _fields_ = [
        ("request", POINTER(Request)),
        ("options", SessionOptions),
        ("shares", c_bool),
        ("is_unordered", c_bool),
        ("is_apart", c_bool),
    ]


class Traced(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("target", c_void_p),
        ("session", c_void_p),
        ("tracer", c_size_t),
        ("pidfd", c_int),
        ("named", c_bool),
        ("later", c_bool),
        ("is_on", c_bool),
        ("has_ended", c_bool),
        ("is_replaced", c_bool),
        ("is_broken", c_bool),
        ("is_stuck", c_bool),
        ("is_read_by_user", c_bool),
        ("is_kept", c_bool),
    ]


class TraceTold(Structure):
    _fields_ = [("probes", c_size_t), ("refusals", c_size_t), ("notes", c_size_t)]


class TraceNews(Structure):
    _fields_ = [
        ("event", c_int),
        ("traced", POINTER(Traced)),
        ("error", POINTER(Error)),
        ("report", POINTER(Report)),
        ("told", TraceTold),
        ("site", c_void_p),
        ("watched", c_void_p),
        ("probe", POINTER(SessionProbe)),
        ("late_ns", c_uint64),
        ("sites", c_size_t),
        ("count", c_uint64),
        ("is_waiting", c_bool),
    ]


class TraceHit(Structure):
    _fields_ = [
        ("hit", POINTER(Hit)),
        ("probes", POINTER(SessionProbe)),
        ("comm", c_char_p),
        ("tracer", c_size_t),
        ("traced", c_void_p),
    ]


class TraceTally(Structure):
    _fields_ = [("hits", c_uint64), ("lost", c_uint64)]


class TraceProbe(Structure):
    _fields_ = [
        ("traced", c_void_p),
        ("tracer", c_size_t),
        ("probe", POINTER(SessionProbe)),
        ("tally", TraceTally),
    ]


TraceVisitor: Any = CFUNCTYPE(c_bool, POINTER(TraceHit), c_void_p)  # TraceVisitor() is NULL
TraceFull: Any = CFUNCTYPE(c_bool, c_void_p, c_bool, c_void_p)
TraceListener: Any = CFUNCTYPE(None, POINTER(TraceNews), c_void_p)


class TraceOptions(Structure):
    _fields_ = [
        ("tracers", POINTER(TraceTracer)),
        ("tracer_count", c_size_t),
        ("follow", c_bool),
        ("ends_heirs", c_bool),
        ("processes", c_void_p),
        ("prepare", c_void_p),
        ("start", c_void_p),
        ("hit", TraceVisitor),
        ("comm", c_void_p),
        ("read", c_void_p),
        ("is_full", TraceFull),
        ("news", TraceListener),
        ("data", c_void_p),
    ]


# By the names that they have in C.
STRUCTS = {
    "probe_error": Error,
    "probe_value": Value,
    "probe_frame": Frame,
    "probe_stack": Stack,
    "probe_hit": Hit,
    "probe_row": Row,
    "probe_coverage": Coverage,
    "probe_table_row": TableRow,
    "probe_arg": Arg,
    "probe_site": Site,
    "probe_defect": Defect,
    "probe_refusal": Refusal,
    "probe_report": Report,
    "probe_request": Request,
    "probe_gather": Gather,
    "probe_session_options": SessionOptions,
    "probe_arg_meaning": ArgMeaning,
    "probe_meaning": Meaning,
    "probe_session_probe": SessionProbe,
    "probe_selection": Selection,
    "probe_trace_tracer": TraceTracer,
    "probe_traced": Traced,
    "probe_trace_told": TraceTold,
    "probe_trace_news": TraceNews,
    "probe_trace_hit": TraceHit,
    "probe_trace_tally": TraceTally,
    "probe_trace_probe": TraceProbe,
    "probe_trace_options": TraceOptions,
}
