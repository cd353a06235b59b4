"""A pasted `vllm serve` command as a setup of the page."""

from __future__ import annotations

from typing import Any

from kvlab.errors import ConfigError, VllmCommandError
from kvlab.setting_table import SETTINGS
from kvlab.sizing.models import model
from kvlab.vllm_flags import parse_command
from kvlab.vllm_setup import setup
from kvlab.web.controls import changes_as_text


def pasted(text: str, gpu: str) -> dict[str, Any]:
    """What `GET /api/command` gives, ready for JSON: the server's settings as links hold them, and where each is from.

    Args:
        gpu: a command names none.
    Raises:
        ConfigError: no such command, flags that can't be simulated (all of them are named), or no such server.
        UnknownNameError: no such model or GPU. The page reads no files: a model's folder is none of the table's.
    """
    try:
        parsed = parse_command(text)
    except VllmCommandError as error:
        raise VllmCommandError(error.problems, where="command") from None
    except ConfigError as error:
        raise ConfigError("command", error.value, error.remedy) from None
    name = parsed.settings.get("model")
    if isinstance(name, str):
        model(name)
    found = setup([parsed], {"gpu": gpu})
    texts = changes_as_text(found.scenario)
    changes = {name: value for name, value in texts.items() if SETTINGS[name].group == "server"}
    origins = found.origins.to_dict()
    # of the traffic nothing is taken over, so nothing was assumed
    origins["assumed"] = [each for each in origins["assumed"] if SETTINGS[each["setting"]].group == "server"]
    return {"changes": changes, **origins}
