"""What to think of the durations of a run: where its step times are from, and whether it left what was measured."""

from __future__ import annotations

from typing import Final

from kvlab.core.config import VllmV0Config, VllmV1Config
from kvlab.core.step_time import StepLoad, chunk_pairs
from kvlab.results import Run
from kvlab.scenarios import Scenario
from kvlab.servers import LINEAR, VllmServer
from kvlab.sizing.dtypes import AUTO
from kvlab.sizing.gpus import gpu
from kvlab.step_time.profiles import Profile, plain

_STAGES: Final = "pipeline stages: one step at a time, through all of them; the real throughput is higher"


def timing_notes(run: Run, scenario: Scenario) -> list[str]:
    """Sentences about the step times of a server; none for the labs, whose times are settings."""
    config, server = run.config, scenario.server
    if not isinstance(config, VllmV1Config | VllmV0Config) or not isinstance(server, VllmServer):
        return []
    profile = server.profile()
    if profile is None:
        return [f"{LINEAR}: base_ns, per_seq_ns and per_prefill_token_ns as they are set"]
    elsewhere = _elsewhere(profile, server)
    beyond = profile.extrapolated(largest_load(run, config))
    stages = [_STAGES] if getattr(server, "pipeline_parallel_size", 1) > 1 else []
    return [*origin(profile), *elsewhere, *(f"extrapolated: {figure}" for figure in beyond), *stages]


def _elsewhere(profile: Profile, server: VllmServer) -> list[str]:
    """Where a profile was chosen by name or file that is of something else."""
    if profile.assumed or server.step_time == AUTO:
        return []
    wanted, found = (server.gpu, server.model), (profile.gpu, profile.model)
    gpus = {plain(server.gpu), plain(gpu(server.gpu).name)}
    if plain(profile.gpu) in gpus and plain(profile.model) == plain(server.model):
        return []
    return [f"of another server: {found[0]}, {found[1]}, not {wanted[0]}, {wanted[1]}"]


def origin(profile: Profile) -> list[str]:
    """Whether it was measured, and how far off it may be if not."""
    if not profile.assumed:
        return [f"measured: {profile.name} ({profile.engine} {profile.engine_version}, {profile.measured_in})"]
    band = [] if profile.band_percent is None else [f"may be {profile.band_percent} % off either way"]
    return [f"assumed: a roofline of {profile.gpu} and {profile.model}", *band]


def step_time_notes(scenario: Scenario) -> list[str]:
    """Where the durations of a server's steps are from, and how far off they may be; none where settings give them.

    Raises:
        ConfigError, UnknownNameError: no such profile, file, model or GPU.
    """
    profile = scenario.server.profile() if isinstance(scenario.server, VllmServer) else None
    return [] if profile is None else origin(profile)


def largest_load(run: Run, config: VllmV1Config | VllmV0Config) -> StepLoad:
    """The largest value of each figure of the load over a run's steps, or a bound of it; 0 without prefill.

    What prefill chunks read is bounded by the longest prompt that one chunk can end.
    """
    totals = run.record.totals
    running = totals.peak_running
    tokens = min(config.max_num_batched_tokens, totals.prefill_tokens)
    longest = max((request.prompt_tokens for request in run.record.requests), default=tokens)
    before = max(0, longest - tokens)
    return StepLoad(
        num_running=running,
        num_decodes=running,
        decode_context=totals.peak_reserved_tokens,
        prefill_tokens=tokens,
        prefill_context=before,
        chunk_context=chunk_pairs(min(tokens, longest), before),
        num_prefills=min(running, tokens),
    )
