# SPDX-License-Identifier: MIT
"""Lists of the probes in files and processes. No process is touched."""

import os
import warnings
from ctypes import POINTER, byref, c_int, c_size_t, c_void_p
from typing import Any, List, NamedTuple, Optional, Tuple, Union

from . import abi
from .errors import ErrorCode, ProbeError, ProbeWarning


class Arg(NamedTuple):
    """An argument of a probe, as its note describes it."""

    spec: str  # "-4@%eax"
    size: int  # bytes
    is_signed: bool
    is_float: bool


class Site(NamedTuple):
    """One site of one probe."""

    provider: str
    name: str
    path: str  # of the module
    build_id: str  # hexadecimal, or ""
    args: Optional[Tuple[Arg, ...]]  # None: the note is malformed
    pc: int  # link-time address
    semaphore: int  # link-time address, or 0
    pid: int  # 0: of a file; what follows is of processes only
    bias: int  # run-time minus link-time address
    enabled: Optional[bool]  # None: not known
    refcount: int
    inconsistent: bool  # the site holds something else than its count says
    plan: str  # how the site is patched; "none": it is not


def _args(sites: Any, site: Any) -> Optional[Tuple[Arg, ...]]:
    args, count = POINTER(abi.Arg)(), c_size_t()
    try:
        abi.list_args(sites, byref(site), byref(args), byref(count))
    except ProbeError as error:
        if error.code != ErrorCode.FORMAT:
            raise
        return None
    return tuple(
        Arg(abi.text(args[i].spec), args[i].size, args[i].is_signed, args[i].is_float)
        for i in range(count.value)
    )


def _site(sites: Any, site: Any) -> Site:
    return Site(
        provider=abi.text(site.provider),
        name=abi.text(site.name),
        path=os.fsdecode(site.path),
        build_id=abi.text(site.build_id),
        args=_args(sites, site),
        pc=site.pc,
        semaphore=site.semaphore,
        pid=site.pid,
        bias=site.bias,
        enabled=site.enabled if site.state_known else None,
        refcount=site.refcount,
        inconsistent=site.inconsistent,
        plan=abi.text(abi.plan_name(site.plan)),
    )


def list_sites(target: Union[int, str, "os.PathLike[str]"]) -> List[Site]:
    """
    Lists the sites of a process (a number), or of an ELF file (a path). A malformed note is a
    ProbeWarning, and the rest of the file is listed.
    """
    sites, count = c_void_p(), c_size_t()
    abi.list_create(byref(sites))
    try:
        if isinstance(target, int):
            abi.list_add_process(sites, abi.fitting(target, c_int))
        else:
            abi.list_add_file(sites, os.fsencode(target))
        defects = abi.list_defects(sites, byref(count))
        for i in range(count.value):
            warnings.warn(
                f"{os.fsdecode(defects[i].path)}: at {defects[i].offset}: "
                f"{abi.text(defects[i].what)}",
                ProbeWarning,
                stacklevel=2,
            )
        array = abi.list_sites(sites, byref(count))
        return [_site(sites, array[i]) for i in range(count.value)]
    finally:
        abi.list_free(sites)
