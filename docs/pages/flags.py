"""What becomes of vLLM's flags."""

from __future__ import annotations

from docs.pages.markdown import table, with_tables
from kvlab.vllm_flag_table import FLAGS, FLAGS_OF_V0, SHORTS, Fate, Flag


def flags_page() -> str:
    """The page of vLLM's flags, with the tables of what becomes of each."""
    return with_tables(
        "flags.md",
        {
            "mapped": mapped_table,
            "noted": noted_table,
            "refused": refused_table,
            "ignored": ignored_table,
            "before": before_v1_table,
        },
    )


def flags_of(fate: Fate) -> list[Flag]:
    """The flags that become that, in the order of the table."""
    return [flag for flag in FLAGS.values() if flag.fate == fate]


def spelled(flag: Flag) -> str:
    """A flag with its short forms."""
    shorts = [short for short, long in SHORTS.items() if long is flag]
    return ", ".join(f"`{name}`" for name in (flag.name, *shorts))


def mapped_table() -> list[str]:
    """Flags that are settings."""
    rows = [[spelled(flag), f"`{flag.setting}`", flag.why] for flag in flags_of("mapped")]
    return table(["flag", "setting", ""], rows)


def noted_table() -> list[str]:
    """Flags that are taken, with what isn't simulated of them."""
    return table(["flag", "what is said"], [[spelled(flag), flag.why] for flag in flags_of("noted")])


def refused_table() -> list[str]:
    """Flags that would change the answer."""
    rows = [
        [spelled(flag), flag.why, flag.remedy, ", ".join(f"`{value}`" for value in flag.harmless if value)]
        for flag in flags_of("refused")
    ]
    return table(["flag", "why", "what to do", "taken when"], rows)


def before_v1_table() -> list[str]:
    """What becomes of flags otherwise under the rules of the engine before V1."""
    rows = [
        [f"`{flag.name}`", "refused: " + flag.why if flag.setting is None else f"`{flag.setting}`"]
        for flag in FLAGS_OF_V0.values()
    ]
    return table(["flag", "becomes"], rows)


def ignored_table() -> list[str]:
    """Flags that change nothing here, by their reason."""
    reasons: dict[str, list[str]] = {}
    for flag in flags_of("ignored"):
        reasons.setdefault(flag.why, []).append(spelled(flag))
    return table(["why", "flags"], [[why, ", ".join(names)] for why, names in reasons.items()])
