"""`kvlab.advise`: the ranked list of fixes for a scenario and a service level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kvlab.advice.answer import FIX, HOLDS, NOTHING, Advice, Fix, effects_of, fix_of
from kvlab.advice.crossover import crossover
from kvlab.advice.goals import Goal, check_goals
from kvlab.advice.levers import FINEST
from kvlab.advice.levers import levers as usual_levers
from kvlab.advice.search import Lab, Search, Trial
from kvlab.advice.served import paired_seeds, turned_away
from kvlab.core.config import PreemptionLabConfig
from kvlab.errors import ConfigError, KvlabError
from kvlab.prices import PRICES, Price
from kvlab.scenarios import Scenario
from kvlab.servers import VllmServer
from kvlab.setting_table import BLOCK_TABLE_LAB
from kvlab.settings import Value
from kvlab.sweeps.workers import Executor

Found = Callable[[Fix], None]
"""Told of each fix as soon as it is known."""
MOST_RUNS: Final = 500
"""Of combinations of levers; then the search says that it stopped."""
MOST_FIXES: Final = 8
FULL: Final = 0.97
"""A pool that was never so full is no bottleneck."""


def find_fixes(
    scenario: Scenario,
    goals: Sequence[Goal],
    *,
    executor: Executor,
    seeds: Sequence[int] = (),
    levers: Mapping[str, Sequence[Value]] | None = None,
    prices: Mapping[str, Price] = PRICES,
    most_runs: int = MOST_RUNS,
    found: Found | None = None,
) -> Advice:
    """Searches single levers, then pairs that would be cheaper than the cheapest of them; three at once where none is.

    Of pairs those come first of which most is to be expected, and last those with a part that makes the goals' metrics
    only worse alone.

    Args:
        goals: all must hold, with every seed.
        executor: who runs them.
        seeds: of the traffic; by default three from the scenario's own on. A trace has none: it is run once. Every
            change sees the same requests, and turns away no more of them than before.
        levers: setting -> the only values to try; by default those of `kvlab.advice.levers`, and of numbers what lies
            between them.
        prices: what has none is left alone.
        found: hears of fixes lever by lever, before they are ranked.
    Raises:
        ConfigError: no goals, one that runs of the scenario can't have, nothing arrives or ends, or there is no lever.
        KvlabError: the scenario itself can't run.
    """
    if not goals:
        raise ConfigError("slo", "", "needs at least one limit")
    check_goals(goals, scenario)
    tried = paired_seeds(scenario, seeds, usual=3)
    lab = Lab(executor)
    base = Trial((), 0, scenario)
    lab.run([base], tried)
    problem = next((outcome.error for outcome in base.outcomes.values() if outcome.error is not None), None)
    if problem is not None:
        raise KvlabError(problem)
    _check_served(base)
    usage = max(base.values("peak_kv_usage_ratio"))
    full = FULL * (1 - _kept_free(scenario))
    bottleneck = usage >= full or max(base.values("preemptions")) > 0 or _waits_for_a_range(base)
    refused = max(turned_away(outcome.metrics or {}) for outcome in base.outcomes.values())

    def fix(trial: Trial) -> Fix:
        return fix_of(trial, base, goals, prices)

    def answer(
        verdict: str, fixes: Sequence[Fix] = (), nearest: Trial | None = None, *, complete: bool = True
    ) -> Advice:
        return Advice(
            scenario=scenario,
            goals=tuple(goals),
            seeds=tried,
            verdict=verdict,
            kv_is_bottleneck=bottleneck,
            peak_kv_usage=usage,
            turned_away=refused,
            now=effects_of(base, base, goals),
            fixes=tuple(fixes),
            nearest=None if nearest is None else fix(nearest),
            crossover=None if scenario.rules == BLOCK_TABLE_LAB else crossover(scenario),
            runs=lab.runs,
            complete=complete,
        )

    if base.keeps(goals):
        return answer(HOLDS)
    given = usual_levers(scenario, int(max(base.values("peak_running")))) if levers is None else levers
    moves = {name: values for name, values in given.items() if name in prices}
    if not moves:
        raise ConfigError(
            "prices", "", "leave no lever that can be moved here: give one that changes something a price"
        )
    search = Search(lab, base, goals, tried, prices, moves, FINEST if levers is None else {})
    fixes: list[tuple[Trial, Fix]] = []
    alone: list[Trial] = []
    parts: dict[str, Sequence[Value]] = {}

    def keep(trial: Trial) -> None:
        fixes.append((trial, fix(trial)))
        if found is not None:
            found(fixes[-1][1])

    for name in moves:
        trials = search.alone(name)
        alone += trials
        good = search.first_sufficient(trials)
        if good is not None:
            keep(search.refined(good))
        parts[name] = search.insufficient(trials)
    before = lab.runs
    below = min((trial.price for trial, _ in fixes), default=None)
    for trial in search.combined(parts, below=below, most_runs=most_runs):
        keep(trial)
    complete = lab.runs - before < most_runs
    if fixes:
        ranked: dict[tuple[str, ...], Fix] = {}
        for trial, each in sorted(fixes, key=lambda pair: _rank(pair[0], pair[1], scenario)):
            ranked.setdefault(trial.levers, each)  # a cheaper one of the same levers may stand there
        return answer(FIX, list(ranked.values())[:MOST_FIXES], complete=complete)
    nearest = min(alone, key=lambda trial: trial.missed(goals), default=None)
    lab.run([] if nearest is None else [nearest], tried)
    return answer(NOTHING, nearest=nearest, complete=complete)


def _check_served(base: Trial) -> None:
    """Whether there is anything to be mended.

    Raises:
        ConfigError: no request arrives, or none is finished.
    """
    if not max(base.values("arrived")):
        raise ConfigError("scenario", base.scenario.name, "no request arrives: give it a longer duration or a rate")
    if not max(base.values("finished")):
        raise ConfigError(
            "scenario", base.scenario.name, "finishes none of its requests: each needs more KV cache than there is, or "
            "more tokens than max_model_len",
        )  # fmt: skip


def _kept_free(scenario: Scenario) -> float:
    """Share of the pool that admissions leave free: where they do, it is as good as full before."""
    config = scenario.engine_config()
    if isinstance(config, PreemptionLabConfig):
        return config.headroom_blocks / config.num_gpu_blocks
    server = scenario.server
    return float(server.watermark) if isinstance(server, VllmServer) else 0.0


def _waits_for_a_range(base: Trial) -> bool:
    """Where each request reserves a range, the pool can be too full for the next one long before it is full."""
    settings = base.scenario.settings()
    if settings.get("allocator") != "contiguous":
        return False
    fits = max(base.values("peak_running"))
    return max(base.values("mean_waiting")) >= 1 and fits < base.scenario.server.max_num_seqs


def _rank(trial: Trial, fix: Fix, scenario: Scenario) -> tuple[int, int, int, float]:
    """By price; of equal price what makes least worse, of those what moves least."""
    return trial.price, len(fix.side_effects), len(trial.change), trial.distance(scenario)
