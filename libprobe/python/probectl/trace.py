# SPDX-License-Identifier: MIT
"""Traces: probes switched on in several processes, those that come later included."""

from typing import Any, Optional, Sequence, Tuple, Union

from . import abi
from .session import Session, State, ids, texts


class Trace(Session):
    """
    Switches probes on in several processes: those with the ids `pids`, those that run a program of
    `exe` or have a `name`, and the descendants of `children`. With `later`, processes that come
    later and meet the conditions are traced, too; with `only_later`, only these. With `follow`, so
    are the programs that traced processes start and execute. `command` is a program to start, with
    its arguments: its probes are on before any of its code runs. The other options, hits and tables
    are those of a Session. Counts and tables are sums over all processes, those that have ended
    included.
    """

    def __init__(
        self,
        probes: Sequence[str],
        *,
        pids: Union[int, Sequence[int]] = (),
        exe: Union[str, Sequence[str]] = (),
        name: Union[str, Sequence[str]] = (),
        children: Union[int, Sequence[int]] = (),
        command: Sequence[str] = (),
        later: bool = False,
        only_later: bool = False,
        follow: bool = False,
        **options: Any,
    ) -> None:
        if isinstance(command, str):
            raise TypeError("a command is a sequence of texts, not one text")
        chosen = abi.Selection(later=later, only_later=only_later)
        chosen.pids, chosen.pid_count = ids(pids)
        chosen.parents, chosen.parent_count = ids(children)
        for kind, these in ((abi.CONDITION_EXE, exe), (abi.CONDITION_NAME, name)):
            these = (these,) if isinstance(these, str) else tuple(these)
            chosen.conditions[kind] = abi.ConditionValues(texts(these), len(these))
        self._made = State(chosen, command, follow=follow)
        self._made.options.follow_children = follow
        options["follow_libraries"] = follow or options.get("follow_libraries", False)
        super().__init__(0, probes, **options)

    def _make_state(self, pid: int) -> State:
        return self._made

    @property
    def processes(self) -> Tuple[int, ...]:
        """The processes whose probes are on."""
        self._state.check_owner()
        state = self._state
        on = lambda: {abi.target_pid(its.target) for its in state.sessions() if its.is_on}
        return tuple(sorted(state.call(on)))

    @property
    def returncode(self) -> Optional[int]:
        """As of subprocess.Popen, for `command`: None until it has ended."""
        return self._state.returncode
