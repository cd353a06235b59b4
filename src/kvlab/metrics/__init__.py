"""What a run means to its users: pure functions over records."""

from kvlab.metrics.catalog import HEADLINES, METRICS, Metric, metric
from kvlab.metrics.summary import Metrics, Value, summarize

__all__ = ["HEADLINES", "METRICS", "Metric", "Metrics", "Value", "metric", "summarize"]
