# SPDX-License-Identifier: MIT
"""Tables of what a process has gathered, copied from what the library owns."""

import ctypes
from ctypes import byref, c_double, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

from . import abi, values

Number = Union[int, float]


@dataclass(frozen=True)
class Bucket:
    """How many values there were from `low` to `high`, which may be infinite."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Row:
    """What was gathered for a probe or a pair, or for one key of it. Times are in nanoseconds."""

    provider: str
    name: str
    begin: Optional[str]  # of a pair: "provider:name"
    keys: Tuple[values.Value, ...]
    count: int
    sum: Optional[Number]  # None: the tracer takes none; likewise the next three
    min: values.Value
    max: values.Value
    last: values.Value
    last_time_ns: int  # CLOCK_REALTIME
    percentiles: Dict[float, float]
    buckets: Tuple[Bucket, ...]  # those that are not empty
    in_flight: int  # of a pair without keys
    unmatched: int  # ends without a begin
    not_counted: str  # "refused", "1 of 3 sites overwritten"; "": nothing is missing

    @property
    def average(self) -> Optional[float]:
        return None if self.sum is None or not self.count else self.sum / self.count


class Table(NamedTuple):
    """Rows, those with the most hits first."""

    rows: Tuple[Row, ...]
    lost: int  # hits without room for their key
    unmatched: int  # ends without a begin


# A long double has its sign and exponent after 8 bytes (x87), which begin with the leading one, or
# after 14 (IEEE 754 binary128), which do not have it.
_HAS_ONE = bytes(ctypes.c_longdouble(1.0))[14:16] != b"\xff\x3f"
_EXPONENT = 8 if _HAS_ONE else 14
_FRACTION = 63 if _HAS_ONE else 112  # bits below the one


def _sum(row: Any) -> Number:
    """Whole numbers exactly: Python's float has fewer digits than a long double."""
    raw = ctypes.string_at(ctypes.addressof(row) + abi.Row.sum.offset, _EXPONENT + 2)
    exponent = int.from_bytes(raw[_EXPONENT:], "little")
    if row.is_float or exponent & 0x7FFF == 0x7FFF:
        return float(row.sum)
    whole = int.from_bytes(raw[:_EXPONENT], "little")
    if not _HAS_ONE and exponent & 0x7FFF:
        whole |= 1 << _FRACTION
    shift = (exponent & 0x7FFF) - 16383 - _FRACTION
    whole = whole << shift if shift >= 0 else whole >> -shift
    return -whole if exponent & 0x8000 else whole


def _buckets(row: Any) -> Tuple[Bucket, ...]:
    if not row.buckets:
        return ()
    low, high = c_double(), c_double()
    found = []
    for index, count in enumerate(row.buckets[: abi.BUCKETS]):
        if count:
            abi.row_bucket(byref(row), index, byref(low), byref(high))
            found.append(Bucket(low.value, high.value, count))
    return tuple(found)


def _row(source: Any, gather: Any, percentiles: Sequence[float]) -> Row:
    row = source.row
    begin = None
    if source.begin_name is not None:
        begin = f"{abi.text(source.begin_provider)}:{abi.text(source.begin_name)}"
    not_counted = ctypes.create_string_buffer(abi.COVERAGE_BYTES)
    abi.coverage_text(not_counted, byref(source.coverage))
    valued = row.has_value
    return Row(
        provider=abi.text(source.provider),
        name=abi.text(source.name),
        begin=begin,
        keys=tuple(values.value(row.keys[i]) for i in range(gather.key_count)),
        count=row.count,
        sum=_sum(row) if valued and gather.sum else None,
        min=values.value(row.min) if valued else None,
        max=values.value(row.max) if valued else None,
        last=values.value(row.last) if valued else None,
        last_time_ns=row.last_time_ns,
        percentiles={
            p: abi.row_percentile(byref(row), p)
            for p in percentiles
            if valued and row.buckets and row.count
        },
        buckets=_buckets(row) if valued else (),
        in_flight=row.in_flight,
        unmatched=source.unmatched,
        not_counted=abi.text(not_counted.value),
    )


def read(table: c_void_p, options: Any, percentiles: Sequence[float]) -> Table:
    """Copies a table of the library, and frees it."""
    count = c_size_t()
    try:
        abi.table_sort(table, abi.ORDER_COUNT)
        rows = abi.table_rows(table, byref(count))
        return Table(
            tuple(_row(rows[i], options.gather, percentiles) for i in range(count.value)),
            abi.table_lost(table),
            abi.table_unmatched(table),
        )
    finally:
        abi.table_free(table)
