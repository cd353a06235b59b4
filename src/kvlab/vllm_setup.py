"""From what a command line or a log says to a scenario: what was read, what else was assumed, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, preset
from kvlab.servers import VllmV1Server
from kvlab.setting_table import SETTINGS, VLLM_V1, settings_of
from kvlab.sizing.engines import engine_rules
from kvlab.sizing.figures import ASSUMED
from kvlab.sizing.plan import Plan
from kvlab.vllm_flags import ParsedCommand, Said, Taken

_INSTEAD: Final = ("num_gpu_blocks_override", "kv_cache_memory_bytes", "gpu_memory_utilization")
"""Each makes those after it do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """A setting that nobody gave."""

    setting: str
    value: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A scenario, and where its settings are from.

    Attributes:
        mapped: flags, or lines of a log, that became settings.
        noted: what changes something that isn't simulated.
        ignored: what changes nothing here.
        assumed: settings of the server and the traffic that nobody gave.
        warnings: what in a log doesn't fit together.
    """

    scenario: Scenario
    mapped: tuple[Taken, ...] = ()
    noted: tuple[Said, ...] = ()
    ignored: tuple[Said, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "mapped": [{"from": each.flag, "setting": each.setting, "value": each.value} for each in self.mapped],
            "noted": [{"from": each.flag, "why": each.why} for each in self.noted],
            "ignored": [{"from": each.flag, "why": each.why} for each in self.ignored],
            "assumed": [{"setting": each.setting, "value": each.value, "why": each.why} for each in self.assumed],
            "warnings": list(self.warnings),
        }


def setup(sources: Sequence[ParsedCommand], given: Mapping[str, object]) -> Setup:
    """The scenario of a vLLM server.

    Args:
        sources: what was read; of two values of a setting the later source's holds.
        given: settings that the user gave besides; they win.
    Raises:
        ConfigError: no model, no GPU, or a value that can't work.
        UnknownNameError: no such setting, model or GPU.
    """
    read, mapped, idle = _merged(sources, given)
    _check_needed({**read, **given})
    version = str({**read, **given}.get("engine_version", preset(VLLM_V1).settings()["engine_version"]))
    usual = {"max_model_len": None, "gpu_memory_utilization": engine_rules(version).gpu_memory_utilization}
    if any({**read, **given}.get(name) is not None for name in _INSTEAD[:2]):
        del usual["gpu_memory_utilization"]
    scenario = preset(VLLM_V1).replace(**{**usual, **read, **given})
    assert isinstance(scenario.server, VllmV1Server)
    known = {*read, *given}
    plan = scenario.server.capacity(**dict.fromkeys({"max_num_seqs", "block_size"} - known)).plan
    limits: dict[str, object] = {"max_num_seqs": plan.batch.max_num_seqs, "block_size": plan.block_size}
    scenario = scenario.replace(**{name: value for name, value in limits.items() if name not in known})
    return Setup(
        scenario=scenario,
        mapped=mapped,
        noted=tuple(said for source in sources for said in source.noted),
        ignored=(*(said for source in sources for said in source.ignored), *idle),
        assumed=tuple(_assumed(scenario, plan, known)),
        warnings=tuple(text for source in sources for text in source.warnings),
    )


def sizing_inputs(
    sources: Sequence[ParsedCommand], given: Mapping[str, object], known: Sequence[str]
) -> dict[str, Any]:
    """What was read and given, as `kvlab.capacity` takes it.

    Args:
        known: the inputs that it has.
    """
    read, _, _ = _merged(sources, given)
    return {name: value for name, value in {**read, **given}.items() if name in known}


def _merged(
    sources: Sequence[ParsedCommand], given: Mapping[str, object]
) -> tuple[dict[str, object], tuple[Taken, ...], list[Said]]:
    """Settings that were read, without those that the user gave or that do nothing beside others; and these."""
    read: dict[str, object] = {}
    mapped: dict[str, Taken] = {}
    for source in sources:
        read |= source.settings
        mapped |= {taken.setting: taken for taken in source.mapped}
    idle = []
    for name in [name for name in read if name in given]:
        idle.append(Said(flag=mapped.pop(name).flag, why=f"{name} was given besides, and wins"))
        del read[name]
    stronger: str | None = None
    for name in _INSTEAD:
        if stronger is not None and name in read:
            idle.append(Said(flag=mapped.pop(name).flag, why=f"it does nothing beside {stronger}"))
            del read[name]
        elif stronger is None and (read.get(name) is not None or given.get(name) not in (None, "none")):
            stronger = name
    return read, tuple(mapped.values()), idle


def _check_needed(values: Mapping[str, object]) -> None:
    if "model" not in values:
        raise ConfigError("model", None, "neither the command nor the log names one: give --model")
    if "gpu" not in values:
        remedy = "give --gpu, such as --gpu A100-80GB: neither commands nor logs say what they run on"
        raise ConfigError("gpu", None, remedy)


def _assumed(scenario: Scenario, plan: Plan, known: set[str]) -> list[Assumed]:
    """In the order of the table: the server's limits, then the traffic."""
    version = f"vLLM {plan.engine_version}"
    on_gpu = f"default of {version} on this GPU"
    length = "no config.json says it" if plan.lengths_from == ASSUMED else "config.json"
    values: dict[str, tuple[object, str]] = {
        "engine_version": (plan.engine_version, "the newest whose rules are known"),
        "gpu_memory_utilization": (plan.gpu_memory_utilization, f"default of {version}"),
        "block_size": (plan.block_size, f"default of {version}"),
        "max_model_len": (plan.max_model_len, length),
        "max_num_batched_tokens": (plan.batch.max_num_batched_tokens, on_gpu),
        "max_num_seqs": (plan.batch.max_num_seqs, on_gpu),
    }
    if plan.num_gpu_blocks_override is not None or plan.kv_cache_memory_bytes is not None:
        del values["gpu_memory_utilization"]
    found = [
        Assumed(setting=name, value=SETTINGS[name].show(value), why=why)
        for name, (value, why) in values.items()
        if name not in known
    ]
    traffic = [setting.name for setting in settings_of(VLLM_V1, "traffic")]
    if known.isdisjoint(traffic):
        settings = scenario.settings()
        for name in ("request_rate", "prompt_tokens", "output_tokens"):
            why = "no traffic was given: give --trace FILE, or a rate and lengths"
            found.append(Assumed(setting=name, value=SETTINGS[name].show(settings[name]), why=why))
    return found
