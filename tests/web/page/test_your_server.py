"""The tab of a real server: its controls, its waterfall, reported cases, a pasted command, refusals."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from benchmarks.browser import PHONE, SERVER, LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit
from tests.web.page.test_looks import violations

from kvlab.cli import execute

HERE = f"?lab={SERVER}"
SHORT = f"{HERE}&duration_ns=40+s"
NEEDS = {"max_concurrency": {"arrivals": "closed-loop"}}
"""Settings without which a control is locked."""
OTHERS = {
    "model": "Qwen/Qwen3-8B",
    "gpu": "A100-SXM-80GB",
    "weight_dtype": "fp8",
    "step_time": "roofline",
    "arrivals": "closed-loop",
    "max_num_seqs": "24",
    "max_model_len": "2048",
    "watermark": "0.2",
    "long_prefill_token_threshold": "128",
    "max_concurrency": "12",
    "prompt_tokens": "1000",
    "output_tokens": "200",
    "block_size": "128",
}
"""Values that change something within 40 s; of other controls the next stop does, or the other end of a switch."""
QUIET = ("enable_prefix_caching", "enable_chunked_prefill", "scheduler_reserve_full_isl", "step_time", "watermark")
"""Acts only where memory is short or prompts are long: tried on a smaller pool."""
SMALL = f"{HERE}&duration_ns=40+s&num_gpu_blocks_override=1600&request_rate=10"


def forgive(lab: LabPage) -> None:
    """The browser's own line about each refusal that was asked for; it comes when it likes, so not before the end."""
    lab.complaints[:] = [complaint for complaint in lab.complaints if "400 (Bad Request)" not in complaint]


def query(lab: LabPage) -> dict[str, str]:
    return {name: texts[-1] for name, texts in parse_qs(urlsplit(lab.page.url).query).items()}


def controls_of(tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {control["name"]: control for control in tables["labs"][SERVER]["controls"]}


def another(control: dict[str, Any]) -> str:
    """A value that isn't the default."""
    if control["kind"] == "switch":
        return str(control["on"] if control["default"] == control["off"] else control["off"])
    if control["name"] in OTHERS:
        return OTHERS[control["name"]]
    values = control["values"]
    return str(values[values.index(control["default"]) - 2])


def test_every_control_changes_figures_or_chart(visit: Visit, tables: dict[str, Any]) -> None:
    controls = controls_of(tables)
    assert len(controls) >= 20
    pages = {SHORT: visit(SHORT), SMALL: visit(SMALL)}
    for control in controls.values():
        name = control["name"]
        if name in ("step_time", "burst"):
            continue  # of a GPU that nobody measured the estimate is all there is; the burst comes after 40 s
        link = SMALL if name in QUIET else SHORT
        lab = pages[link]
        for field, text in NEEDS.get(name, {}).items():
            lab.put(controls[field], text)
        tiles, chart = lab.tiles(), lab.chart()
        text = another(control)
        lab.put(control, text)
        assert (lab.tiles(), lab.chart()) != (tiles, chart), f"{name} = {text} changes nothing"
        assert query(lab)[name] == text
        lab.page.goto(lab.address + link)
        lab.page.locator("html[data-shown]").wait_for(state="attached")
        lab.settle()


def test_what_would_do_nothing_is_locked_and_never_sent(visit: Visit, tables: dict[str, Any]) -> None:
    controls = controls_of(tables)
    lab = visit(SHORT)
    expect(lab.slider("max_concurrency")).to_be_disabled()
    lab.put(controls["request_rate"], "5")
    lab.put(controls["arrivals"], "closed-loop")
    assert query(lab)["max_concurrency"] == "64"
    assert "request_rate" not in query(lab)
    expect(lab.slider("request_rate")).to_be_disabled()
    expect(lab.slider("max_concurrency")).to_be_enabled()
    lab.put(controls["max_concurrency"], "8")
    lab.put(controls["arrivals"], "poisson")
    assert "max_concurrency" not in query(lab)
    expect(lab.page.locator("#error")).to_be_hidden()
    small = visit(SMALL)
    expect(small.slider("gpu_memory_utilization")).to_be_disabled()


def waterfall(lab: LabPage) -> dict[str, tuple[str, str]]:
    """Part -> size and where it is from."""
    script = """[...document.querySelectorAll('#waterfall [data-part]')].map(row =>
        [row.dataset.part, [...row.querySelectorAll('td')].map(cell => cell.textContent)])"""
    return {part: (cells[0], cells[1]) for part, cells in lab.read(script)}


def test_the_waterfall_moves_with_the_sliders(visit: Visit, tables: dict[str, Any]) -> None:
    controls = controls_of(tables)
    lab = visit(SHORT)
    before = waterfall(lab)
    assert list(before) == ["weights", "activations", "non_torch", "graphs", "kv", "free"]
    assert {origin for _, origin in before.values()} <= {"measured", "derived", "assumed", "given"}
    lab.put(controls["gpu_memory_utilization"], "0.7")
    after = waterfall(lab)
    assert after["weights"] == before["weights"]
    assert float(after["kv"][0].split()[0]) < float(before["kv"][0].split()[0])
    assert float(after["free"][0].split()[0]) > float(before["free"][0].split()[0])
    lab.put(controls["model"], "Qwen/Qwen3-4B")
    assert waterfall(lab)["weights"] != before["weights"]
    lab.page.get_by_text("Where the figures are from").click()
    expect(lab.page.locator("#waterfall-notes li").first).to_be_visible()
    lab.page.get_by_role("link", name="Preemption lab").click()
    lab.settle()
    expect(lab.page.locator("#waterfall")).to_be_hidden()


def test_reported_cases_are_ready_setups(visit: Visit, tables: dict[str, Any]) -> None:
    lab = visit(HERE)
    examples = tables["labs"][SERVER]["examples"]
    for example in examples:
        card = lab.page.locator(f'[data-example="{example["id"]}"]')
        expect(card).to_contain_text(example["source"])
        button = lab.page.locator(f"#example-{example['id']}-0")
        button.click()
        lab.settle()
        expect(lab.page.locator("#error")).to_be_hidden()
        expect(button).to_have_attribute("aria-pressed", "true")
        expect(card).to_contain_text("Ours: ")
        defaults = tables["labs"][SERVER]["defaults"]
        setup = {name: text for name, text in example["variants"][0]["setup"].items() if defaults.get(name) != text}
        assert query(lab) == {"lab": SERVER, **setup}


def test_the_eighth_user_makes_all_of_them_slow(visit: Visit) -> None:
    lab = visit(HERE)
    tpot = {}
    for place, name in ((2, "7 users"), (0, "8 users")):
        lab.page.locator(f"#example-U05-{place}").click()
        lab.settle()
        tpot[name] = lab.tiles()["p95_tpot_ns"]
    assert tpot == {"7 users": "114 ms", "8 users": "452 ms"}
    assert lab.deltas()["p95_tpot_ns"].endswith("(worse)")


def test_a_link_gives_the_numbers_of_the_command_line(
    visit: Visit, capsys: pytest.CaptureFixture[str], tables: dict[str, Any]
) -> None:
    lab = visit(f"{SHORT}&max_num_seqs=48&watermark=0.02")
    lab.page.locator("#share").click()
    program, *words = shlex.split(lab.text(".share-row:has(#share-command) code"))
    assert program == "kvlab"
    flags = lab.text(".share-row:has(#share-flags) code")
    assert "--max-num-seqs 48" in flags
    assert "--watermark 0.02" in flags
    assert execute([*words, "--json", "--quiet"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    shown = lab.read("fetch('api/run?' + document.documentElement.dataset.shown).then(answer => answer.arrayBuffer())"
                     ".then(data => JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, "
                     "new DataView(data).getUint32(4, true)))).tiles)")  # fmt: skip
    assert shown["preemptions_per_1000"]["text"] == lab.tiles()["preemptions_per_1000"]
    for name, tile in shown.items():
        if name in metrics and metrics[name] is not None:
            value = metrics[name] / 1e9 if name.endswith("_ns") else metrics[name]
            assert tile["value"] == pytest.approx(value, rel=1e-12)


def test_a_server_that_would_not_start_is_refused_with_a_remedy(visit: Visit, tables: dict[str, Any]) -> None:
    lab = visit(SHORT)
    tiles = lab.tiles()
    lab.put(controls_of(tables)["model"], "meta-llama/Llama-3.1-70B-Instruct")
    error = lab.page.locator("#error")
    expect(error).to_contain_text("CUDA out of memory")
    expect(error).to_contain_text("What helps: a GPU with more memory")
    expect(lab.page.locator('#waterfall [data-part="weights"]')).to_contain_text("131 GiB")
    assert lab.tiles() == tiles
    lab.page.get_by_role("button", name="Back to the run shown").click()
    lab.settle()
    expect(error).to_be_hidden()
    forgive(lab)
    expect(lab.page.locator('#waterfall [data-part="weights"]')).to_contain_text("15 GiB")
    assert "model" not in query(lab)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("model=llama", "unknown model"),
        ("model=/etc/passwd", "unknown model"),
        ("step_time=/tmp/profile.json", "the page reads no files"),
        ("base_ns=9+ms", "does nothing while step_time is auto"),
        ("max_concurrency=8", "arrivals = closed-loop"),
        ("prompt_tokens=many", "prompt_tokens"),
        ("enable_chunked_prefill=off&max_num_batched_tokens=1024", "vLLM would not start: without chunked prefill"),
        ("max_num_seqs=1024&max_num_batched_tokens=512", "vLLM would not start: it must be at least max_num_seqs"),
    ],
)
def test_links_that_make_no_server_say_why(visit: Visit, link: str, words: str) -> None:
    lab = visit(f"{HERE}&{link}")
    expect(lab.page.locator("#error")).to_contain_text(words)
    lab.page.get_by_role("button", name="Back to defaults").last.click()
    lab.settle()
    expect(lab.page.locator("#error")).to_be_hidden()
    forgive(lab)


def test_a_pasted_command_becomes_the_setup(visit: Visit, tables: dict[str, Any]) -> None:
    lab = visit(f"{SHORT}&request_rate=5")
    lab.page.get_by_text("Paste a command").click()
    field = lab.page.locator("#command-text")
    field.fill("vllm serve Qwen/Qwen3-8B --max-num-seqs 32 --kv-cache-dtype fp8 --port 8000")
    lab.page.locator("#command-take").click()
    expect(lab.page.locator("#command-said")).to_contain_text("--max-num-seqs 32: max_num_seqs = 32")
    expect(lab.page.locator("#command-said")).to_contain_text("--port")
    lab.settle()
    assert query(lab).items() >= {
        "model": "Qwen/Qwen3-8B", "max_num_seqs": "32", "kv_cache_dtype": "fp8", "request_rate": "5",
    }.items()  # fmt: skip
    expect(lab.slider("model")).to_have_value("Qwen/Qwen3-8B")
    field.fill("vllm serve Qwen/Qwen3-8B --no-such-flag 3")
    lab.page.locator("#command-take").click()
    expect(lab.page.locator("#command-said")).to_contain_text("--no-such-flag")
    lab.settle()
    forgive(lab)


def test_a_trace_with_block_hashes_hits_the_prefix_cache(visit: Visit, tmp_path: Path) -> None:
    """Conversations of 20 users with one system prompt: each turn begins as the one before."""
    rows = [
        {"timestamp": 6_000 * turn + 190 * user, "input_length": 512 * (2 + turn) + 100, "output_length": 40 + user,
         "hash_ids": [0, *(100 * (user + 1) + block for block in range(turn + 1)), 100 * (user + 1) + 50 + turn]}
        for turn in range(3) for user in range(20)
    ]  # fmt: skip
    path = tmp_path / "conversations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lab = visit(f"{HERE}&arrivals=closed-loop&max_concurrency=8&num_requests=40")
    assert lab.tiles()["prefix_hit_ratio"] == "0 %"
    lab.page.locator("#trace-file").set_input_files(path)
    lab.page.locator("#trace-drop").wait_for()
    lab.settle()
    expect(lab.page.locator("#accounting")).to_have_text("60 arrived = 60 finished + 0 rejected")
    assert query(lab).keys() == {"lab", "trace"}
    assert float(lab.tiles()["prefix_hit_ratio"].split()[0]) > 50
    for name in ("arrivals", "prompt_tokens", "request_rate"):
        expect(lab.slider(name)).to_be_disabled()


def test_blocks_of_the_cache_are_told_from_free_ones(visit: Visit) -> None:
    lab = visit(f"{SHORT}#t=30")
    expect(lab.page.locator("#map-legend")).to_contain_text("free, cached")
    expect(lab.page.locator("#map-live")).to_contain_text("with content that can be used again")
    without = visit(f"{SHORT}&enable_prefix_caching=off#t=30")
    expect(without.page.locator("#map-live")).not_to_contain_text("with content")


@pytest.mark.parametrize("size", [(1440, 1000), PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Visit, scheme: str, size: tuple[int, int]) -> None:
    lab = visit(f"{HERE}#t=30", scheme=scheme, size=size)
    assert violations(lab) == []
    lab.page.get_by_text("Paste a command").click()
    lab.page.get_by_text("Where the figures are from").click()
    lab.page.locator("#example-U06-0").click()
    lab.settle()
    assert violations(lab) == []
    assert lab.read("document.documentElement.scrollWidth") <= size[0]
