"""Recorded traffic: reading, writing, cutting, scaling and describing traces of requests."""

from kvlab.workloads.traces.formats import TRACE_FORMATS, TraceFormat, check_reading, read_trace
from kvlab.workloads.traces.rows import TraceRow

__all__ = ["TRACE_FORMATS", "TraceFormat", "TraceRow", "check_reading", "read_trace"]
