# SPDX-License-Identifier: MIT
"""The functions of libprobe that this package uses, for ctypes. Those that fail raise ProbeError."""

import ctypes
import os
from ctypes import POINTER, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from itertools import count
from typing import Any, Optional, Tuple

from .errors import ErrorCode, ProbeError
from .structs import *
from .version import VERSION


def _load() -> ctypes.CDLL:
    path = os.environ.get("LIBPROBE") or "libprobe.so.0"
    try:
        library = ctypes.CDLL(path)  # which lets other threads run during each call
    except OSError as error:
        raise ImportError(
            f"{error}; install libprobe, or name its file in the variable LIBPROBE"
        ) from error
    library.probe_version.restype = c_char_p
    version = library.probe_version().decode()
    if version != VERSION:
        raise ImportError(f"{path} is version {version}, this package needs {VERSION}")
    return library


_library = _load()
_library.probe_error_free.argtypes = [POINTER(Error)]
_library.probe_error_free.restype = None


def text(value: Optional[bytes]) -> str:
    """Text of the library. It may come from a target, so any bytes are possible."""
    return (value or b"").decode("utf-8", "surrogateescape")


def fitting(value: int, kind: Any) -> int:
    """A number that C's type can hold: ctypes would take another one, such as another process."""
    if kind(value).value != value:
        raise OverflowError(f"{value} is out of range")
    return value


def taken(error: Any) -> ProbeError:
    """An error of the library as an exception. The error is freed."""
    its = error.contents
    exception = ProbeError(ErrorCode(its.code), its.err, text(its.message))
    _library.probe_error_free(error)
    return exception


def _check(result: Any, _function: Any, _arguments: Tuple[Any, ...]) -> None:
    if result:
        raise taken(result)


def _function(name: str, restype: Any, *argtypes: Any) -> Any:
    function = getattr(_library, name)
    function.argtypes = argtypes
    function.restype = restype
    return function


def _fallible(name: str, *argtypes: Any) -> Any:
    """A function that returns a struct probe_error *, which becomes an exception."""
    function = _function(name, POINTER(Error), *argtypes)
    function.errcheck = _check
    return function


_ret = POINTER(c_void_p)
_count_ret = POINTER(c_size_t)

catalogue_create = _fallible("probe_catalogue_create", _ret)
catalogue_free = _function("probe_catalogue_free", None, c_void_p)

list_create = _fallible("probe_list_create", _ret)
list_free = _function("probe_list_free", None, c_void_p)
list_add_file = _fallible("probe_list_add_file", c_void_p, c_char_p)
list_add_process = _fallible("probe_list_add_process", c_void_p, c_int)
list_sites = _function("probe_list_sites", POINTER(Site), c_void_p, _count_ret)
list_defects = _function("probe_list_defects", POINTER(Defect), c_void_p, _count_ret)
list_args = _fallible(
    "probe_list_args", c_void_p, POINTER(Site), POINTER(POINTER(Arg)), _count_ret
)
plan_name = _function("probe_plan_name", c_char_p, c_int)
# All numbers of plans have names, except 0 (not chosen).
PLAN_COUNT = next(plan for plan in count(1) if plan_name(plan) == plan_name(0))
Report._fields_ = report_fields(PLAN_COUNT)

pattern_parse_named = _fallible("probe_pattern_parse_named", c_char_p, c_void_p, _ret)
pattern_paired = _function(
    "probe_pattern_paired", c_size_t, POINTER(c_void_p), c_size_t, c_void_p
)
pattern_pair = _function("probe_pattern_pair", c_bool, c_void_p)
pattern_free = _function("probe_pattern_free", None, c_void_p)

tracer_parse = _fallible("probe_tracer_parse", c_char_p, _ret)
tracer_free = _function("probe_tracer_free", None, c_void_p)
tracer_pairs = _function("probe_tracer_pairs", c_bool, c_void_p)
tracer_output = _function("probe_tracer_output", c_int, c_void_p)
tracer_configure = _fallible(
    "probe_tracer_configure", c_void_p, c_size_t, POINTER(SessionOptions)
)
tracer_take_stacks = _fallible(
    "probe_tracer_take_stacks", c_void_p, c_char_p, POINTER(SessionOptions)
)

target_spawn = _fallible("probe_target_spawn", POINTER(c_char_p), _ret)
target_release = _fallible("probe_target_release", c_void_p)
target_pid = _function("probe_target_pid", c_int, c_void_p)
target_close = _function("probe_target_close", None, c_void_p)

session_damaged = _function("probe_session_damaged", c_uint64, c_void_p)

processes_create = _fallible("probe_processes_create", POINTER(Selection), _ret)
processes_free = _function("probe_processes_free", None, c_void_p)

trace_create = _fallible("probe_trace_create", POINTER(TraceOptions), _ret)
trace_free = _function("probe_trace_free", None, c_void_p)
trace_add = _fallible("probe_trace_add", c_void_p, c_void_p, c_bool)
trace_add_found = _fallible("probe_trace_add_found", c_void_p)
trace_start = _fallible("probe_trace_start", c_void_p)
trace_poll = _fallible("probe_trace_poll", c_void_p)
trace_fd = _function("probe_trace_fd", c_int, c_void_p)
trace_due_ns = _function("probe_trace_due_ns", c_uint64, c_void_p)
trace_is_over = _function("probe_trace_is_over", c_bool, c_void_p)
trace_refresh = _function("probe_trace_refresh", None, c_void_p)
trace_stop = _function("probe_trace_stop", None, c_void_p, c_bool)
trace_sessions = _function(
    "probe_trace_sessions", POINTER(POINTER(Traced)), c_void_p, _count_ret
)
trace_probes = _function("probe_trace_probes", POINTER(TraceProbe), c_void_p, _count_ret)
trace_table = _fallible("probe_trace_table", c_void_p, c_size_t, _ret)
free = ctypes.CDLL(None).free
free.argtypes, free.restype = (c_void_p,), None

table_free = _function("probe_table_free", None, c_void_p)
table_sort = _function("probe_table_sort", None, c_void_p, c_int)
table_rows = _function("probe_table_rows", POINTER(TableRow), c_void_p, _count_ret)
table_lost = _function("probe_table_lost", c_uint64, c_void_p)
table_unmatched = _function("probe_table_unmatched", c_uint64, c_void_p)
row_bucket = _function(
    "probe_row_bucket", None, POINTER(Row), c_size_t, POINTER(c_double), POINTER(c_double)
)
row_percentile = _function("probe_row_percentile", c_double, POINTER(Row), c_double)
coverage_text = _function("probe_coverage_text", None, c_char_p, POINTER(Coverage))
