# SPDX-License-Identifier: MIT
"""What goes wrong, as exceptions and warnings."""

import enum


class ErrorCode(enum.IntEnum):
    """Why something failed, for programs: enum probe_error_code."""

    SYSTEM = 1
    MEMORY = 2
    USAGE = 3
    FORMAT = 4
    NOT_FOUND = 5
    PERMISSION = 6
    STATE = 7
    REFUSED = 8
    UNSUPPORTED = 9
    ENDED = 10


class ProbeError(Exception):
    """An error of the library. Its text is one line for people."""

    def __init__(self, code: ErrorCode, errno: int, message: str) -> None:
        super().__init__(code, errno, message)
        self.code = code
        self.errno = errno  # a number of errno(3), or 0
        self.message = message

    def __str__(self) -> str:
        return self.message


class ProbeWarning(UserWarning):
    """Something is less than was asked for: a site refused, a smaller buffer, a malformed note."""
