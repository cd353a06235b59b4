"""Recorded traffic: reading, writing, cutting, scaling and describing traces of requests."""

from kvlab.workloads.traces.describe import TraceSummary, describe
from kvlab.workloads.traces.edit import cut, scale, sort
from kvlab.workloads.traces.formats import TRACE_FORMATS, TraceFormat, check_reading, read_trace, reading, trace_format
from kvlab.workloads.traces.rows import TraceRow

__all__ = [
    "TRACE_FORMATS",
    "TraceFormat",
    "TraceRow",
    "TraceSummary",
    "check_reading",
    "cut",
    "describe",
    "read_trace",
    "reading",
    "scale",
    "sort",
    "trace_format",
]
