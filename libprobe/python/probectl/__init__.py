# SPDX-License-Identifier: MIT
"""
Static probes of running programs, by libprobe: list() shows them, a Session switches them on in a
process, and a Trace in several; both read hits, or what is gathered. docs/python.md has examples.
"""

from .errors import ErrorCode, ProbeError, ProbeWarning
from .session import Probe, Refusal, Session
from .sites import Arg, Site
from .sites import list_sites as list  # probectl.list(): the name of the command
from .table import Bucket, Row, Table
from .trace import Trace
from .values import Frame, Hit, Text, Value
from .version import VERSION as __version__

__all__ = [
    "Arg",
    "Bucket",
    "ErrorCode",
    "Frame",
    "Hit",
    "Probe",
    "ProbeError",
    "ProbeWarning",
    "Refusal",
    "Row",
    "Session",
    "Site",
    "Table",
    "Text",
    "Trace",
    "Value",
    "list",
    "__version__",
]
