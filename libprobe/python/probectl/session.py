# SPDX-License-Identifier: MIT
"""Sessions: probes switched on in a process, until the session ends."""

import collections
import ctypes
import os
import select
import threading
import time
import warnings
import weakref
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint16, c_uint64, c_void_p
from types import TracebackType
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from . import abi, table, values
from .errors import ErrorCode, ProbeError, ProbeWarning

_Self = TypeVar("_Self", bound="Session")

_IDLE_SECONDS = 0.02
_PENDING_MAX = 50000  # hits that nobody has read yet


class Refusal(NamedTuple):
    """A site that could not be patched safely: its hits are not seen."""

    provider: str
    name: str
    path: str
    pc: int
    reason: str


class Probe(NamedTuple):
    """A probe of a session. The path is "" for the sum of processes that are no longer there."""

    provider: str
    name: str
    path: str
    hits: int
    lost: int  # hits without a record: there was no room
    unmatched: int  # ends without a begin


class State:
    """
    The trace of a Session, and the thread that polls it. The thread ends when the process that made
    it frees the state. The state does not know the Session, so that one that is forgotten is freed,
    too.

    Only this thread calls the library for the trace, because it may hold processes, which ptrace(2)
    allows to one thread. Other threads hand it tasks. It polls all the time, whatever the program
    does: rings are emptied, a process waits for us when it opens a library, and a seccomp filter
    that it installs is seen. Signals do not interrupt it: they run in the main thread only, and what
    a handler raises (Ctrl-C) would be lost in a function that C calls, and a hit with it.
    """

    def __init__(self, selection: Any, command: Sequence[str] = (), **how: bool) -> None:
        self.owner = os.getpid()
        self.changed = threading.Condition(threading.RLock())
        self.catalogue, self.tracer = c_void_p(), c_void_p()
        self.trace, self.processes, self.target = c_void_p(), c_void_p(), c_void_p()
        self.patterns: List[c_void_p] = []
        self.options = abi.SessionOptions()  # keeps the strings that it points to
        self.request = abi.Request()
        self.selection, self.command, self.how = selection, command, how
        self.thread = threading.Thread(target=self.serve, name="probectl", daemon=True)
        self.tasks: Deque[Callable[[], None]] = collections.deque()
        self.gathers = self.stopped = self.closing = False
        self.ended = True  # no more hits will come
        self.pending: Deque[values.Hit] = collections.deque()
        self.failure: Optional[BaseException] = None
        self.errors: List[ProbeError] = []  # of single processes
        self.refused: List[Refusal] = []
        self.notes: Deque[str] = collections.deque()  # warnings that nobody has got yet
        self.known: Dict[Any, Dict[int, values.Names]] = {}  # by session and probe
        self.damages = 0  # in processes that have ended
        self.stop_failure: Optional[ProbeError] = None  # that nobody has got yet
        self.bell = os.pipe()  # ends a sleep of the thread
        weakref.finalize(self, _close, *self.bell)
        self.child = 0
        self.returncode: Optional[int] = None

    def check_owner(self) -> None:
        if os.getpid() != self.owner:
            raise RuntimeError("a forked child cannot use a session of its parent: start its own")

    # ---- The start -------------------------------------------------------------------------

    def prepare(
        self, probes: Sequence[str], tracer: str, stack: Optional[str], keep_going: bool, many: bool
    ) -> None:
        options, request = self.options, self.request
        abi.catalogue_create(byref(self.catalogue))
        options.catalogue = request.catalogue = self.catalogue
        for probe in probes:
            self.patterns.append(c_void_p())
            abi.pattern_parse_named(encoded(probe), self.catalogue, byref(self.patterns[-1]))
        abi.tracer_parse(encoded(tracer), byref(self.tracer))
        self.gathers = abi.tracer_output(self.tracer) == abi.TRACER_ROWS
        if abi.tracer_output(self.tracer) not in (abi.TRACER_ROWS, abi.TRACER_HITS):
            raise ValueError(f"tracer '{tracer}' has neither hits nor rows: see probectl-trace(1)")
        if abi.tracer_pairs(self.tracer) and self.patterns:
            # Functions are pairs by themselves.
            if all([abi.pattern_pair(pattern) for pattern in self.patterns]):
                options.gather.pairing = abi.PAIRING_NAMES
        patterns = (c_void_p * len(probes))(*[p.value for p in self.patterns])
        paired = abi.pattern_paired(patterns, len(probes), self.catalogue)
        abi.tracer_configure(self.tracer, paired, byref(options))
        if stack is not None:
            abi.tracer_take_stacks(self.tracer, encoded(stack), byref(options))
        request.patterns = patterns
        request.pattern_count = len(probes)
        request.keep_going = keep_going
        request.many = many

    def start(self) -> None:
        self.thread.start()
        self.call(self.open)

    def take(self, report: Any, refusals: int = 0, notes: int = 0) -> None:
        """Takes a report; so many refusals and notes of it are known."""
        refused = _refusals(report)[refusals:]
        self.refused += refused
        self.notes += [abi.text(note) for note in report.notes[notes : report.note_count]]
        self.notes += [f"{r.provider}:{r.name} is left out: {r.reason}" for r in refused]

    def call(self, task: Callable[[], Any]) -> Any:
        """
        Lets the thread do a task, and returns its result. The lock of a condition could stay taken
        if a signal's handler raised an exception, so it is not used here.
        """
        results: List[Any] = []
        errors: List[BaseException] = []
        done = threading.Lock()

        def run() -> None:
            try:
                results.append(task())
            except BaseException as error:
                errors.append(error)
            done.release()

        done.acquire()
        if not self.closing:
            self.tasks.append(run)
            self.wake()
        while not done.acquire(timeout=_IDLE_SECONDS):
            if not self.thread.is_alive():
                raise ValueError("the session is closed")
        if errors:
            raise errors[0]
        return results[0]

    # ---- The thread ------------------------------------------------------------------------

    def serve(self) -> None:
        while self.step():
            pass
        if self.trace:
            self.finish(False)
        release(abi.trace_free, self.trace)
        release(abi.target_close, self.target)
        release(abi.processes_free, self.processes)
        self.free_request()
        self.reap()

    def open(self) -> None:
        chosen = self.selection.pid_count + self.selection.parent_count
        if chosen or any(condition.count for condition in self.selection.conditions):
            abi.processes_create(byref(self.selection), byref(self.processes))
        tracer = abi.TraceTracer(request=ctypes.pointer(self.request), options=self.options)
        self.callbacks = abi.TraceOptions(
            tracers=ctypes.pointer(tracer),
            tracer_count=1,
            processes=self.processes,
            hit=abi.TraceVisitor() if self.gathers else abi.TraceVisitor(self.visit_traced),
            is_full=abi.TraceFull(self.is_full),
            news=abi.TraceListener(self.news),
            **self.how,
        )
        abi.trace_create(byref(self.callbacks), byref(self.trace))
        if self.command:
            abi.target_spawn(texts(self.command, None), byref(self.target))
            self.child = abi.target_pid(self.target)
            target, self.target = self.target, c_void_p()  # it is the trace's now
            abi.trace_add(self.trace, target, True)
        if self.processes:
            abi.trace_add_found(self.trace)
        abi.trace_start(self.trace)
        held = [its.target for its in self.sessions() if abi.target_pid(its.target) == self.child]
        if abi.trace_is_over(self.trace) or (self.child and not held):
            raise self.errors[0] if self.errors else ValueError("there is no process to trace")
        if held:
            abi.target_release(held[0])
        self.ended = False

    def step(self) -> bool:
        """One round. Returns False at the end."""
        with self.changed:
            while self.tasks:
                self.tasks.popleft()()
            self.ended |= self.closing
            self.changed.notify_all()
        if self.closing:
            return False
        ready, seconds = select.poll(), _IDLE_SECONDS
        ready.register(self.bell[0], select.POLLIN)
        if self.ended:
            self.reap()
        else:
            self.poll()
            ready.register(abi.trace_fd(self.trace), select.POLLIN)
            seconds = (abi.trace_due_ns(self.trace) - time.monotonic_ns()) / 1e9
        if self.bell[0] in dict(ready.poll(1000 * min(max(seconds, 0), _IDLE_SECONDS))):
            os.read(self.bell[0], 512)
        return True

    def poll(self) -> None:
        over = False
        try:
            abi.trace_poll(self.trace)
            over = abi.trace_is_over(self.trace)
        except BaseException as error:
            self.failure = self.failure or error
        with self.changed:
            if self.failure or over:
                self.finish()
            self.changed.notify_all()

    def wake(self) -> None:
        os.write(self.bell[1], b"!")

    def reap(self) -> None:
        """Asks for the status of the program that we have started, if nobody has got it."""
        try:
            pid, status = os.waitpid(self.child, os.WNOHANG) if self.child else (0, 0)
        except ChildProcessError:
            self.child = 0
            return
        if pid:
            self.returncode, self.child = os.waitstatus_to_exitcode(status), 0

    def finish(self, read: bool = True) -> None:
        if not self.stopped:
            self.stopped = self.ended = True
            known = len(self.errors)
            abi.trace_stop(self.trace, read)
            failures = (e for e in self.errors[known:] if e.code != ErrorCode.ENDED)
            self.stop_failure = next(failures, None)

    def visit_traced(self, source: Any, _data: Any) -> bool:
        its = source.contents
        known = self.known.setdefault(its.traced, {})

        def names_of(index: int) -> values.Names:
            if index not in known:
                known[index] = values.names_of(its.probes[index])
            return known[index]

        try:
            self.pending.append(values.hit(its.hit.contents, names_of))
        except BaseException as error:  # ctypes would only print it
            self.failure = error
        return self.failure is None

    def is_full(self, _traced: Any, _wait: bool, _data: Any) -> bool:
        return not self.stopped and len(self.pending) >= _PENDING_MAX

    def news(self, source: Any, _data: Any) -> None:
        news = source.contents
        if news.error:
            self.errors.append(abi.taken(news.error))
            self.notes.append(str(self.errors[-1]))
        elif news.event in (abi.TRACE_STARTED, abi.TRACE_GREW):
            self.take(news.report.contents, news.told.refusals, news.told.notes)
        elif news.event == abi.TRACE_DROPPED:
            self.damages += abi.session_damaged(news.traced.contents.session)
        elif news.event == abi.TRACE_CLOSED:
            self.known.pop(ctypes.addressof(news.traced.contents), None)

    # ---- What there is to know -------------------------------------------------------------

    def sessions(self) -> List[Any]:
        count = c_size_t()
        sessions = abi.trace_sessions(self.trace, byref(count))
        return [sessions[i].contents for i in range(count.value)]

    def read_probes(self) -> List[Probe]:
        sums: Dict[Tuple[str, str, str], Probe] = {}
        count = c_size_t()
        abi.trace_refresh(self.trace)
        probes = abi.trace_probes(self.trace, byref(count))
        for i in range(count.value):
            its = probes[i].probe.contents
            key = (abi.text(its.provider), abi.text(its.name), os.fsdecode(its.path or b""))
            sum = sums.get(key, Probe(*key, 0, 0, 0))
            sums[key] = sum._replace(
                hits=sum.hits + its.hits,
                lost=sum.lost + its.lost,
                unmatched=sum.unmatched + its.unmatched,
            )
        abi.free(probes)
        return list(sums.values())

    def read_table(self, percentiles: Sequence[float]) -> table.Table:
        if self.failure:
            raise self.failure
        rows = c_void_p()
        abi.trace_refresh(self.trace)
        abi.trace_table(self.trace, 0, byref(rows))
        return table.read(rows, self.options, percentiles)

    def damaged(self) -> int:
        damaged = lambda: sum(abi.session_damaged(its.session) for its in self.sessions())
        return int(self.damages + self.call(damaged))

    # ---- Ending ----------------------------------------------------------------------------

    def stop(self) -> None:
        self.call(self.finish)
        failure, self.stop_failure = self.stop_failure, None
        if failure:
            raise failure

    def free(self) -> None:
        if os.getpid() != self.owner:
            return
        self.closing = True
        self.wake()
        if self.thread.ident is None:
            self.free_request()
        elif self.thread is not threading.current_thread():
            self.thread.join()
        failure, self.stop_failure = self.stop_failure, None
        if failure:
            raise failure

    def free_request(self) -> None:
        release(abi.pattern_free, *self.patterns)
        release(abi.tracer_free, self.tracer)
        release(abi.catalogue_free, self.catalogue)


class Session:
    """
    Switches probes on in a process. `probes` are written as for probectl(1). `tracer` is the name
    of a tracer that hands over hits ("print", "span"), or gathers rows ("count", "sum,EXPR",
    "hist,EXPR", "latency" ...; probectl-trace(1)). `filter`, `key` and `match` are expressions.
    `min_ns`: shorter spans are left out. `stack` takes call stacks: "" copies, "frames" follows
    the frame pointers. With `wait_ns`, hits wait so long for room in their rings (at most a second)
    before they are lost. With `keep_going`, refused sites are left out, whatever names them; `many`
    allows more than a thousand functions.

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
        many: bool = False,
    ) -> None:
        if isinstance(probes, str):
            raise TypeError("probes are a sequence of texts, not one text")
        keys = (key,) if isinstance(key, str) else tuple(key)
        if len(keys) > abi.KEYS_MAX:
            raise ValueError(f"a session has at most {abi.KEYS_MAX} keys, not {len(keys)}")
        # Whatever interrupts us: what a call has made is known to the state, which is freed.
        self._state = self._make_state(pid)
        self._finalizer = weakref.finalize(self, self._state.free)

        options = self._state.options
        options.filter = None if filter is None else encoded(filter)
        options.gather.keys[:] = [encoded(k) for k in keys] + [None] * (abi.KEYS_MAX - len(keys))
        options.gather.key_count = len(keys)
        options.gather.match = None if match is None else encoded(match)
        options.span_min_ns = abi.fitting(min_ns, c_uint64)
        options.wait_ns = abi.fitting(wait_ns, c_uint64)
        options.ring_bytes = abi.fitting(ring_bytes, c_size_t)
        options.string_bytes = abi.fitting(string_bytes, c_uint16)
        options.follow_libraries = follow_libraries
        options.described = True
        try:
            self._state.prepare(probes, tracer, stack, keep_going, many)
            self._state.start()
            self._warn()
        except BaseException:
            self.close()
            raise

    def _make_state(self, pid: int) -> State:
        selection = abi.Selection()
        selection.pids, selection.pid_count = ids(pid)
        return State(selection, ends_heirs=True)

    def _warn(self) -> None:
        while self._state.notes:
            warnings.warn(self._state.notes.popleft(), ProbeWarning, stacklevel=3)

    # ---- Ending ----------------------------------------------------------------------------

    def stop(self) -> None:
        """Restores the process. Hits that are still in its memory, and rows, can be read."""
        self._state.check_owner()
        self._state.stop()
        self._warn()

    def close(self) -> None:
        """Restores the process, and frees the session."""
        self._state.free()
        self._finalizer.detach()
        self._warn()

    def __enter__(self: _Self) -> _Self:
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
            self._warn()
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
        state = self._state
        return state.call(lambda: state.read_table(percentiles))  # type: ignore[no-any-return]

    @property
    def probes(self) -> Tuple[Probe, ...]:
        """The probes, with their counts as of now."""
        self._state.check_owner()
        return tuple(self._state.call(self._state.read_probes))

    @property
    def lost(self) -> int:
        """How many hits have left no record, because there was no room."""
        return sum(probe.lost for probe in self.probes)

    @property
    def damaged(self) -> int:
        """How often records were dropped because the process had written over them."""
        self._state.check_owner()
        return self._state.damaged()

    @property
    def refusals(self) -> Tuple[Refusal, ...]:
        """Sites that could not be patched, those of libraries opened later included."""
        self._state.check_owner()
        return tuple(self._state.refused)


def encoded(value: str) -> bytes:
    if "\0" in value:
        raise ValueError(f"{value!r} has a NUL")
    return value.encode("utf-8", "surrogateescape")


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def release(free: Any, *pointers: c_void_p) -> None:
    for pointer in pointers:
        address, pointer.value = pointer.value, None
        free(address)


def _refusals(report: Any) -> Tuple[Refusal, ...]:
    return tuple(
        Refusal(abi.text(r.provider), abi.text(r.name), os.fsdecode(r.path), r.pc, abi.text(r.reason))
        for r in report.refusals[: report.refusal_count]
    )


def texts(values: Sequence[str], *end: None) -> Any:
    """An array of C's texts."""
    return (c_char_p * (len(values) + len(end)))(*map(encoded, values), *end)


def ids(pids: Union[int, Sequence[int]]) -> Tuple[Any, int]:
    these = [abi.fitting(pid, c_int) for pid in ((pids,) if isinstance(pids, int) else pids)]
    return (c_int * len(these))(*these), len(these)
