#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""seize.py PID: traces a process like a debugger until its input ends; prints "seized"."""
import ctypes
import os
import sys

PTRACE_SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("seized", flush=True)
sys.stdin.read()
