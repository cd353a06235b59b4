"""How many requests per second fit into a service level? A bisection over the rate.

python examples/capacity.py
"""

from __future__ import annotations

from decimal import Decimal

import kvlab

SLO = "ttft<=5s, gap<=500ms"
ENOUGH = Decimal("0.99")


def good_ratio(rate: Decimal, **settings: object) -> float:
    """Share of requests within the limits, over ten minutes of arrivals."""
    scenario = kvlab.scenario("preemption-lab", request_rate=rate, duration_ns="10 min", slo=SLO, **settings)
    return float(kvlab.simulate(scenario, record=kvlab.METRICS).metrics.good_ratio or 0)


def highest_rate(**settings: object) -> Decimal:
    """The highest rate, to 0.05/s, at which enough requests are good. Bisection takes it that more load is worse."""
    low, high = Decimal("0.5"), Decimal("6.1")
    while high - low > Decimal("0.05"):
        middle = (low + high) / 2
        if good_ratio(middle, **settings) >= ENOUGH:
            low = middle
        else:
            high = middle
    return low.quantize(Decimal("0.01"))


def main() -> None:
    """The preset, then with fewer sequences at once, then with a KV cache of half the size per token."""
    print(f"99 % of requests within {SLO}:")
    for settings in ({}, {"max_num_seqs": 48}, {"kv_cache_dtype": "fp8"}):
        label = ", ".join(f"{name} = {value}" for name, value in settings.items()) or "preset"
        print(f"  {label:24} up to {highest_rate(**settings)} requests/s")


if __name__ == "__main__":
    main()
