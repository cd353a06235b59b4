"""What a lab's limits do to traffic: drawn answers are capped by `max_tokens`, those of a trace must obey it."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from kvlab.core.request import RequestSource
from kvlab.workloads.lengths import parse_lengths
from kvlab.workloads.traffic import Traffic, source


def limited_source(traffic: Traffic, max_tokens: int | None) -> RequestSource:
    """A fresh source of the traffic in which no answer is longer than `max_tokens` (None: no limit).

    Raises:
        TraceError: the trace can't be read; from the source: a row asks for more than `max_tokens`.
    Source: MODEL.md, "What holds in both labs": caps are applied when traffic is drawn, an output over it is invalid.
    """
    if max_tokens is None or traffic.trace is not None:
        return source(traffic, max_tokens=max_tokens)
    return source(capped(traffic, max_tokens))


def capped(traffic: Traffic, max_tokens: int) -> Traffic:
    """The same traffic with answers of at most `max_tokens`; the draws stay where they are."""
    lengths = parse_lengths(traffic.output_tokens, "output_tokens")
    limit = max_tokens if lengths.max_tokens is None else min(max_tokens, lengths.max_tokens)
    lower = dataclasses.replace(cast(Any, lengths), max_tokens=limit)
    return dataclasses.replace(traffic, output_tokens=str(lower))
