# SPDX-License-Identifier: MIT
"""Sessions: probes switched on in a process, until the session ends."""

import collections
import os
import select
import threading
import time
import warnings
import weakref
from ctypes import byref, c_bool, c_int, c_size_t, c_uint16, c_uint64, c_void_p
from types import TracebackType
from typing import Any, Deque, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from . import abi, table, values
from .errors import ProbeError, ProbeWarning

_IDLE_SECONDS = 0.01
_GATHERING_SECONDS = 0.1  # there is nothing to be read
_BUSY_SECONDS = 0.001  # others get the lock
_PENDING_MAX = 50000  # hits that nobody has read yet


class Refusal(NamedTuple):
    """A site that could not be patched safely: its hits are not seen."""

    provider: str
    name: str
    path: str
    pc: int
    reason: str


class Probe(NamedTuple):
    """A probe of a session, as of the last time that hits were read."""

    provider: str
    name: str
    path: str
    hits: int
    lost: int  # hits without a record: there was no room
    unmatched: int  # ends without a begin


class _State:
    """
    What the library has made for a session, and the thread that polls it. It is freed once, by the
    process that made it. It does not know the Session, so that one that is forgotten is freed, too.

    A session must be polled all the time, whatever the program does: rings are emptied, the process
    waits for us when it opens a library, and a seccomp filter that it installs is seen. Signals do
    not interrupt that thread: they run in the main thread only, and what a handler raises (Ctrl-C)
    would be lost in a function that C calls, and a hit with it.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.changed = threading.Condition(threading.RLock())
        self.catalogue = c_void_p()
        self.tracer = c_void_p()
        self.target = c_void_p()
        self.session = c_void_p()
        self.patterns: List[c_void_p] = []
        self.options = abi.SessionOptions()  # keeps the strings that it points to
        self.gathers = False
        self.stopped = False
        self.pending: Deque[values.Hit] = collections.deque()
        self.names: List[values.Names] = []
        self.failure: Optional[BaseException] = None
        self.ended = False  # no more hits will come

    def check_owner(self) -> None:
        if os.getpid() != self.owner:
            raise RuntimeError("a forked child cannot use a session of its parent: start its own")

    def opened(self) -> c_void_p:
        self.check_owner()
        if not self.session:
            raise ValueError("the session is closed")
        return self.session

    # ---- The thread ------------------------------------------------------------------------

    def serve(self) -> None:
        visitor = abi.Visitor(self.visit)
        more = c_bool()
        while True:
            with self.changed:
                if self.ended:
                    return
                # Before polling: what an ended process has left is read once more.
                last = self.stopped or not abi.target_alive(self.target)
                # Records that we have no room for stay in their rings.
                full = len(self.pending) >= _PENDING_MAX
                try:
                    visit = abi.Visitor() if full else visitor
                    abi.session_poll(self.session, visit, None, byref(more))
                except BaseException as error:
                    self.failure = self.failure or error
                self.ended = self.failure is not None or (last and not full and not more)
                self.changed.notify_all()
                descriptor = abi.session_fd(self.session)
            if self.gathers:
                _wait(descriptor, _GATHERING_SECONDS)
            else:
                _wait(descriptor, _BUSY_SECONDS if more else _IDLE_SECONDS)

    def visit(self, source: Any, _data: Any) -> bool:
        try:
            self.pending.append(values.hit(source.contents, self.names_of))
            return len(self.pending) < _PENDING_MAX
        except BaseException as error:  # ctypes would only print it
            self.failure = error
            return False

    def probes(self) -> List[Any]:
        count = c_size_t()
        probes = abi.session_probes(self.opened(), byref(count))
        return [probes[i] for i in range(count.value)]

    def names_of(self, index: int) -> values.Names:
        if index >= len(self.names):
            self.names = [values.names_of(probe) for probe in self.probes()]
        return self.names[index]

    # ---- Ending ----------------------------------------------------------------------------

    # An exception of a signal's handler may come between any two lines, but not in a call: both of
    # these do the rest when they are called again.

    def stop(self) -> None:
        if self.session and not self.stopped:
            abi.session_stop(self.session)
            self.stopped = True

    def free(self) -> None:
        # A forked child has copies, and must not change the target.
        if os.getpid() != self.owner:
            return
        with self.changed:
            failure = None
            try:
                self.stop()
            except ProbeError as error:
                failure = error
            self.ended = True
            self.changed.notify_all()
            for free, pointers in (
                (abi.session_free, [self.session]),
                (abi.target_close, [self.target]),
                (abi.pattern_free, self.patterns),
                (abi.tracer_free, [self.tracer]),
                (abi.catalogue_free, [self.catalogue]),
            ):
                for pointer in pointers:
                    address, pointer.value = pointer.value, None
                    free(address)
            if failure:
                raise failure


class Session:
    """
    Switches probes on in a process. `probes` are written as for probectl(1). `tracer` is the name
    of a tracer that hands over hits ("print", "span"), or gathers rows ("count", "sum,EXPR",
    "hist,EXPR", "latency" ...; probectl-trace(1)). `filter`, `key` and `match` are expressions.
    `min_ns`: shorter spans are left out. `stack` takes call stacks: "" copies, "frames" follows
    the frame pointers. With `wait_ns`, hits wait so long for room in their rings (at most a second)
    before they are lost. With `keep_going`, refused sites are left out, whatever names them.

    The process is restored by close(), at the end of a `with` block, and when the interpreter
    exits. Threads may share a session; a forked child cannot use it.
    """

    def __init__(
        self,
        pid: int,
        probes: Sequence[str],
        *,
        tracer: str = "print",
        filter: Optional[str] = None,
        key: Union[str, Sequence[str]] = (),
        match: Optional[str] = None,
        min_ns: int = 0,
        stack: Optional[str] = None,
        wait_ns: int = 0,
        ring_bytes: int = 0,
        string_bytes: int = 0,
        follow_libraries: bool = False,
        keep_going: bool = False,
    ) -> None:
        if isinstance(probes, str):
            raise TypeError("probes are a sequence of texts, not one text")
        keys = (key,) if isinstance(key, str) else tuple(key)
        if len(keys) > abi.KEYS_MAX:
            raise ValueError(f"a session has at most {abi.KEYS_MAX} keys, not {len(keys)}")
        self._state = _State()
        # Whatever interrupts us: what a call has made is known to the state, which is freed.
        self._finalizer = weakref.finalize(self, self._state.free)
        self._refusals: Tuple[Refusal, ...] = ()

        options = self._state.options
        options.filter = None if filter is None else _bytes(filter)
        options.gather.keys[:] = [_bytes(k) for k in keys] + [None] * (abi.KEYS_MAX - len(keys))
        options.gather.key_count = len(keys)
        options.gather.match = None if match is None else _bytes(match)
        options.span_min_ns = abi.fitting(min_ns, c_uint64)
        options.wait_ns = abi.fitting(wait_ns, c_uint64)
        options.ring_bytes = abi.fitting(ring_bytes, c_size_t)
        options.string_bytes = abi.fitting(string_bytes, c_uint16)
        options.follow_libraries = follow_libraries
        options.described = True
        try:
            self._start(pid, probes, tracer, stack, keep_going)
        except BaseException:
            self.close()
            raise

    def _start(
        self, pid: int, probes: Sequence[str], tracer: str, stack: Optional[str], keep_going: bool
    ) -> None:
        state, options = self._state, self._state.options
        abi.catalogue_create(byref(state.catalogue))
        options.catalogue = state.catalogue
        for probe in probes:
            state.patterns.append(c_void_p())
            abi.pattern_parse_named(_bytes(probe), state.catalogue, byref(state.patterns[-1]))
        abi.tracer_parse(_bytes(tracer), byref(state.tracer))
        state.gathers = abi.tracer_output(state.tracer) == abi.TRACER_ROWS
        if abi.tracer_output(state.tracer) not in (abi.TRACER_ROWS, abi.TRACER_HITS):
            raise ValueError(f"tracer '{tracer}' has neither hits nor rows: see probectl-trace(1)")
        patterns = (c_void_p * len(probes))(*[p.value for p in state.patterns])
        paired = abi.pattern_paired(patterns, len(probes), state.catalogue)
        abi.tracer_configure(state.tracer, paired, byref(options))
        if stack is not None:
            abi.tracer_take_stacks(state.tracer, _bytes(stack), byref(options))
        abi.target_open(abi.fitting(pid, c_int), None, byref(state.target))
        request, report = abi.Request(), abi.Report()
        request.patterns = patterns
        request.pattern_count = len(probes)
        request.keep_going = keep_going
        request.catalogue = state.catalogue
        try:
            abi.session_start(
                state.target, byref(request), byref(options), byref(report), byref(state.session)
            )
            self._refusals = _refusals(report)
            notes = [abi.text(note) for note in report.notes[: report.note_count]]
            notes += [f"{r.provider}:{r.name} is left out: {r.reason}" for r in self._refusals]
            for note in notes:
                warnings.warn(note, ProbeWarning, stacklevel=3)
        finally:
            abi.report_deinit(byref(report))
        threading.Thread(target=state.serve, name="probectl", daemon=True).start()

    # ---- Ending ----------------------------------------------------------------------------

    def stop(self) -> None:
        """Restores the process. Hits that are still in its memory, and rows, can be read."""
        self._state.check_owner()
        with self._state.changed:
            self._state.stop()

    def close(self) -> None:
        """Restores the process, and frees the session."""
        self._state.free()
        self._finalizer.detach()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    # ---- What there is to know -------------------------------------------------------------

    def __iter__(self) -> Iterator[values.Hit]:
        return self.hits()

    def hits(self, timeout: Optional[float] = None) -> Iterator[values.Hit]:
        """
        Yields hits as they come, until the process or the session has ended, or for `timeout`
        seconds. What is not yielded then comes first the next time.
        """
        self._state.check_owner()
        if self._state.gathers:
            raise ValueError("the session gathers rows: read table()")
        return self._hits(None if timeout is None else time.monotonic() + timeout)

    def _hits(self, deadline: Optional[float]) -> Iterator[values.Hit]:
        state = self._state
        while True:
            state.check_owner()
            with state.changed:
                while not state.pending:
                    if state.failure:
                        raise state.failure
                    left = None if deadline is None else deadline - time.monotonic()
                    if state.ended or (left is not None and left <= 0):
                        return
                    state.changed.wait(left)
                hit = state.pending.popleft()
            yield hit
            if deadline is not None and time.monotonic() >= deadline:
                return

    def table(self, percentiles: Sequence[float] = (50, 90, 99)) -> table.Table:
        """Reads what has been gathered so far, with these percentiles of values and times."""
        if not self._state.gathers:
            raise ValueError("the session hands over hits: iterate over it")
        self._state.check_owner()
        with self._state.changed:
            if self._state.failure:
                raise self._state.failure
            session = self._state.opened()
            abi.session_poll(session, abi.Visitor(), None, None)  # updates the counts
            return table.read(session, self._state.options, percentiles)

    @property
    def probes(self) -> Tuple[Probe, ...]:
        """The probes, with their counts: at most 0.1 seconds old, or final after stop()."""
        self._state.check_owner()
        with self._state.changed:
            return tuple(
                Probe(
                    abi.text(p.provider),
                    abi.text(p.name),
                    os.fsdecode(p.path),
                    p.hits,
                    p.lost,
                    p.unmatched,
                )
                for p in self._state.probes()
            )

    @property
    def lost(self) -> int:
        """How many hits have left no record, because there was no room."""
        return sum(probe.lost for probe in self.probes)

    @property
    def damaged(self) -> int:
        """How often records were dropped because the process had written over them."""
        self._state.check_owner()
        with self._state.changed:
            return int(abi.session_damaged(self._state.opened()))

    @property
    def refusals(self) -> Tuple[Refusal, ...]:
        """Sites that could not be patched, those of libraries opened later included."""
        self._state.check_owner()
        with self._state.changed:
            later = abi.session_report(self._state.opened()).contents
            return self._refusals + _refusals(later)


def _bytes(value: str) -> bytes:
    if "\0" in value:
        raise ValueError(f"{value!r} has a NUL")
    return value.encode("utf-8", "surrogateescape")


def _refusals(report: Any) -> Tuple[Refusal, ...]:
    return tuple(
        Refusal(abi.text(r.provider), abi.text(r.name), os.fsdecode(r.path), r.pc, abi.text(r.reason))
        for r in report.refusals[: report.refusal_count]
    )


def _wait(descriptor: int, seconds: float) -> None:
    """Waits; a library that the process opens, and for which it waits for us, ends that."""
    poll = select.poll()
    if descriptor >= 0:
        poll.register(descriptor, select.POLLIN)
    poll.poll(seconds * 1000)
