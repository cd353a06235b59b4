"""When the arrival rate is not its usual one: shaded stretches of the chart."""

from __future__ import annotations

from typing import Any

from kvlab.scenarios import Scenario
from kvlab.units import NS_PER_S
from kvlab.workloads.rates import RateEvent


def bands(scenario: Scenario) -> list[dict[str, Any]]:
    """One entry per event, in order of time: `from_s`, `to_s` and a word; an event ends with the arrivals."""
    traffic = scenario.traffic
    last_ns = traffic.window_ns
    found = []
    for event in sorted(traffic.events(), key=lambda event: event.start_ns):
        end_ns = event.end_ns if last_ns is None else min(event.end_ns, last_ns)
        if event.start_ns < end_ns:
            found.append({"from_s": event.start_ns / NS_PER_S, "to_s": end_ns / NS_PER_S, "label": _word(event)})
    return found


def _word(event: RateEvent) -> str:
    if event.first != event.last:
        return "ramp"
    return "burst" if event.first > 1 else "lull"
