# SPDX-License-Identifier: MIT
"""Hits and their values, copied from what the library owns."""

import ctypes
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from . import abi


class Text(NamedTuple):
    """A number that points to text, or an address with its name: sym()."""

    number: int
    text: str


# None: it could not be read.
Value = Union[None, int, float, str, bytes, Text]


class Frame(NamedTuple):
    """A frame of a call stack."""

    ip: int
    module: Optional[str]
    symbol: Optional[str]
    offset: int  # in the symbol, or else in the file


class Hit(NamedTuple):
    """A hit of a probe."""

    provider: str
    name: str
    time_ns: int  # CLOCK_REALTIME
    pid: int
    tid: int
    cpu: int  # -1: not known
    pc: int  # run-time address of the site
    args: Tuple[Value, ...]
    names: Tuple[str, ...]  # of args, of a probe that the catalogue knows; else ()
    truncated: Tuple[int, ...]  # the indexes of strings and bytes that were longer
    stack: Optional[Tuple[Frame, ...]]  # innermost first
    stack_whole: bool  # False: the stack has more frames
    begin: Optional["Hit"]  # of a span
    duration_ns: int

    @property
    def named(self) -> Dict[str, Value]:
        """The arguments by their names in the catalogue."""
        return dict(zip(self.names, self.args))


def value(source: Any) -> Value:
    kind = source.kind
    if kind == abi.VALUE_SIGNED:
        return int(source.i)
    if kind == abi.VALUE_UNSIGNED:
        return int(source.u)
    if kind == abi.VALUE_FLOAT:
        return float(source.f)
    if kind == abi.VALUE_NULL:
        return None
    data = ctypes.string_at(source.bytes, source.length) if source.length else b""
    if kind == abi.VALUE_BYTES:
        return data
    if kind == abi.VALUE_TEXT:
        return Text(source.u, abi.text(data))
    return abi.text(data)


def _frame(frame: Any) -> Frame:
    return Frame(
        frame.ip,
        None if frame.module is None else os.fsdecode(frame.module),
        None if frame.symbol is None else abi.text(frame.symbol),
        frame.offset,
    )


def _stack(stack: Any) -> Tuple[Frame, ...]:
    return tuple(_frame(stack.frames[i].contents) for i in range(stack.count))


class Names(NamedTuple):
    """What all hits of a probe have in common."""

    provider: str
    name: str
    args: Tuple[str, ...]


def names_of(probe: Any) -> Names:
    args = []
    if probe.meaning:
        meaning = probe.meaning.contents
        for index in probe.args:
            if index >= meaning.arg_count:
                break
            args.append(abi.text(meaning.args[index].name))
    return Names(abi.text(probe.provider), abi.text(probe.name), tuple(args))


def hit(source: Any, names: Any) -> Hit:
    """Copies a struct probe_hit. `names` returns the Names of a probe by its index."""
    probe = names(source.probe)
    args = source.args[: source.arg_count]
    stack = source.stack.contents if source.stack else None
    return Hit(
        provider=probe.provider,
        name=probe.name,
        time_ns=source.time_ns,
        pid=source.pid,
        tid=source.tid,
        cpu=source.cpu,
        pc=source.pc,
        args=tuple([value(arg) for arg in args]),
        names=probe.args[: len(args)],
        truncated=tuple([i for i, arg in enumerate(args) if arg.truncated]),
        stack=None if stack is None else _stack(stack),
        stack_whole=stack is None or stack.end == abi.STACK_WHOLE,
        begin=hit(source.begin.contents, names) if source.begin else None,
        duration_ns=source.duration_ns,
    )
