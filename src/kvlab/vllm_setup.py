"""From what a command line or a log says to a scenario: what was read, what else was assumed, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, preset
from kvlab.servers import SIZING_INPUTS, VllmServer
from kvlab.setting_table import SETTINGS, VLLM_V1
from kvlab.settings import NOT_SET
from kvlab.sizing.engines import engine_rules
from kvlab.sizing.figures import ASSUMED
from kvlab.sizing.plan import Plan
from kvlab.vllm_flags import ParsedCommand, Said, Taken

_INSTEAD: Final = ("num_gpu_blocks_override", "kv_cache_memory_bytes", "gpu_memory_utilization")
"""Each makes those after it do nothing."""
_UNSET: Final = (None, NOT_SET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """A setting that nobody gave."""

    setting: str
    value: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Where settings are from.

    Attributes:
        mapped: flags, or lines of a log, that became settings.
        noted: what changes something that isn't simulated.
        ignored: what changes nothing here.
        assumed: settings of the server and the traffic that nobody gave.
        warnings: what in a log doesn't fit together.
    """

    mapped: tuple[Taken, ...] = ()
    noted: tuple[Said, ...] = ()
    ignored: tuple[Said, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "mapped": [{"from": each.flag, "setting": each.setting, "value": each.value} for each in self.mapped],
            "noted": [{"from": each.flag, "why": each.why} for each in self.noted],
            "ignored": [{"from": each.flag, "why": each.why} for each in self.ignored],
            "assumed": [{"setting": each.setting, "value": each.value, "why": each.why} for each in self.assumed],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A scenario, and where its settings are from."""

    scenario: Scenario
    origins: Origins


def setup(sources: Sequence[ParsedCommand], given: Mapping[str, object], rules: str = VLLM_V1) -> Setup:
    """The scenario of a vLLM server.

    Args:
        sources: what was read; of two values of a setting the later source's holds.
        given: settings that the user gave besides; they win.
        rules: those that the sources were read for.
    Raises:
        ConfigError: no model, no GPU, or a value that can't work.
        UnknownNameError: no such setting, model or GPU.
    """
    read, origins = _merged(sources, given)
    values = {**read, **given}
    _check_needed(values)
    base = preset(rules)
    version = str(values.get("engine_version", base.settings()["engine_version"]))
    usual: dict[str, object] = {"max_model_len": None}
    if all(values.get(name) in _UNSET for name in _INSTEAD[:2]):
        usual["gpu_memory_utilization"] = engine_rules(version).gpu_memory_utilization
    scenario = base.replace(**{**usual, **values})
    assert isinstance(scenario.server, VllmServer)
    left_out = [name for name in ("max_num_seqs", "block_size") if name not in values]
    plan = scenario.server.capacity(**dict.fromkeys(left_out)).plan
    limits: dict[str, object] = {"max_num_seqs": plan.batch.max_num_seqs, "block_size": plan.block_size}
    scenario = scenario.replace(**{name: limits[name] for name in left_out})
    return Setup(scenario=scenario, origins=replace(origins, assumed=tuple(_assumed(scenario, plan, values))))


def sizing_inputs(sources: Sequence[ParsedCommand], given: Mapping[str, object]) -> tuple[dict[str, Any], Origins]:
    """What was read and given as `kvlab.capacity` takes it, without the scheduler's settings, and where it is from.

    Args:
        given: inputs that the user gave besides; they win.
    """
    read, origins = _merged(sources, given)
    mapped = tuple(taken for taken in origins.mapped if taken.setting in SIZING_INPUTS)
    return {name: read[name] for name in read if name in SIZING_INPUTS} | dict(given), replace(origins, mapped=mapped)


def _merged(sources: Sequence[ParsedCommand], given: Mapping[str, object]) -> tuple[dict[str, object], Origins]:
    """Settings that were read, without those that the user gave or that do nothing beside others."""
    read: dict[str, object] = {}
    mapped: dict[str, Taken] = {}
    for source in sources:
        read |= source.settings
        mapped |= {taken.setting: taken for taken in source.mapped}
    idle = {name: f"{name} was given besides, and wins" for name in read if name in given}
    decides = next((name for name in _INSTEAD if {**read, **given}.get(name) not in _UNSET), None)
    if decides is not None:
        weaker = _INSTEAD[_INSTEAD.index(decides) + 1 :]
        idle |= {name: f"it does nothing beside {decides}" for name in weaker if name in read}
    ignored = [Said(flag=mapped.pop(name).flag, why=why) for name, why in idle.items()]
    return {name: value for name, value in read.items() if name not in idle}, Origins(
        mapped=tuple(mapped.values()),
        noted=tuple(said for source in sources for said in source.noted),
        ignored=(*(said for source in sources for said in source.ignored), *ignored),
        warnings=tuple(text for source in sources for text in source.warnings),
    )


def _check_needed(values: Mapping[str, object]) -> None:
    if "model" not in values:
        raise ConfigError("model", None, "neither the command nor the log names one: give --model")
    if "gpu" not in values:
        remedy = "give --gpu, such as --gpu A100-80GB: neither commands nor logs say what they run on"
        raise ConfigError("gpu", None, remedy)


def _assumed(scenario: Scenario, plan: Plan, known: Mapping[str, object]) -> list[Assumed]:
    """In the order of the table: the server's limits, then the traffic."""
    version = f"vLLM {plan.engine_version}"
    on_gpu = f"default of {version} on this GPU"
    length = "no config.json says it" if plan.lengths_from == ASSUMED else "config.json"
    values: dict[str, tuple[object, str]] = {
        "engine_version": (plan.engine_version, "that of the preset"),
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
    settings, idle = scenario.settings(), scenario.traffic.idle()
    for name in ("request_rate", "prompt_tokens", "output_tokens"):
        if name not in known and name not in idle:
            why = "no such traffic was given: give --trace FILE, or a rate and lengths"
            found.append(Assumed(setting=name, value=SETTINGS[name].show(settings[name]), why=why))
    return found
