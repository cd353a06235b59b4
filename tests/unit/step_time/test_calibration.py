"""Known coefficients come back from made-up measurements, and what can't be known is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.measurements import BENCH, TRUE, random_loads, step_log, write_bench

from kvlab.core.step_time import KneeStepTime, TwoLawStepTime
from kvlab.errors import ConfigError, MeasurementError
from kvlab.step_time.calibration import About, Calibration, calibrate
from kvlab.step_time.laws import predicted_ns
from kvlab.step_time.measurements import StepLog, read_measurements
from kvlab.step_time.profiles import read_profile

ABOUT = About(name="mine", gpu="L40S-48GB", model="Qwen/Qwen3-8B")


def from_log(folder: Path, text: str, kind: str = "two-law") -> Calibration:
    path = folder / "steps.csv"
    path.write_text(text, encoding="utf-8")
    return calibrate([read_measurements(str(path))], ABOUT, kind)


def test_a_step_log_gives_its_coefficients_back(tmp_path: Path) -> None:
    found = from_log(tmp_path, step_log(TRUE, random_loads(600)))
    step_time = found.profile.step_time
    assert isinstance(step_time, TwoLawStepTime)
    for ours, true in ((step_time.decode, TRUE.decode), (step_time.mixed, TRUE.mixed)):
        for name in true.__dataclass_fields__:
            assert getattr(ours, name) == pytest.approx(getattr(true, name), rel=0.01), name
    assert found.warnings == ()
    assert found.assumptions == ()
    assert {name: errors.mean_percent for name, errors in found.profile.errors.items()} == {
        "decode steps": 0.0,
        "mixed steps": 0.0,
    }


def test_the_held_out_error_is_the_noise(tmp_path: Path) -> None:
    found = from_log(tmp_path, step_log(TRUE, random_loads(2000), noise=0.1))
    for errors in found.profile.errors.values():
        assert 4.5 < errors.mean_percent < 5.5  # the mean of a uniform 0 to 10 %
        assert abs(errors.bias_percent) < 1


def test_a_knee_is_found(tmp_path: Path) -> None:
    flat = TRUE.mixed
    steep = type(flat)(base_ps=0, per_prefill_token_ps=170_000_000)
    knee = KneeStepTime(decode=(TRUE.decode,), mixed=(flat, steep))
    loads = random_loads(1500)
    found = from_log(tmp_path, step_log(knee, loads), "knee")
    assert isinstance(found.profile.step_time, KneeStepTime)
    assert len(found.profile.step_time.mixed) == 2
    one = from_log(tmp_path, step_log(knee, loads))
    assert found.profile.errors["mixed steps"].mean_percent < one.profile.errors["mixed steps"].mean_percent / 2


def test_collinear_steps_are_told(tmp_path: Path) -> None:
    rows = "".join(f"{15 + 0.19 * n},{n},{1000 * n}\n" for n in range(1, 40))
    found = from_log(tmp_path, "dur_ms,num_decodes,decode_context\n" + rows)
    assert any("num_decodes, decode_context can't be told apart" in text for text in found.warnings)
    assert any("no step has prefill tokens" in text for text in found.warnings)
    assert found.profile.errors["decode steps"].mean_percent < 0.01


def test_a_log_without_chunks_says_what_is_assumed(tmp_path: Path) -> None:
    lines = step_log(TRUE, random_loads(400)).splitlines()
    text = "\n".join(",".join(line.split(",")[:4]) for line in lines)
    found = from_log(tmp_path, text)
    assert found.assumptions == (
        "the chunks of a step are alike",
        "num_prefills and prefill_context cost nothing: the log has no such column",
    )


def test_too_few_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="decode steps = 2: at least 3 are needed"):
        from_log(tmp_path, "dur_ms,num_decodes,decode_context\n1,1,10\n2,5,90\n")


def test_durations_have_units(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("dur,num_decodes,decode_context\n1.5 ms,1,10\n20us,2,20\n", encoding="utf-8")
    log = read_measurements(str(path))
    assert isinstance(log, StepLog)
    assert [step.duration_ns for step in log.steps] == [1_500_000, 20_000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_decodes,decode_context\n1,2\n", "steps.csv, line 1: needs one column dur"),
        ("dur_ms,num_decodes\n1,2\n", "line 1: has no column decode_context"),
        ("dur_ms,dur_us,num_decodes,decode_context\n", "line 1: needs one column dur"),
        ("dur_ms,num_decodes,num_decodes,decode_context\n", "line 1: has the column num_decodes twice"),
        ("dur_ms,num_decodes,decode_context\n", "has no steps"),
        ("dur_ms,num_decodes,decode_context\n1,1,1\n1,x,1\n", 'line 3: num_decodes = "x": expected a number'),
        ("dur_ms,num_decodes,decode_context\n1,1\n", "line 2: has 2 values for 3 columns"),
        ("dur_ms,num_decodes,decode_context\n0,1,1\n", 'line 2: dur_ms = "0": must be more than 0'),
        ("dur,num_decodes,decode_context\n12,1,1\n", "line 2: dur = \"12\": needs a unit"),
        ("dur_ms,num_decodes,decode_context\n1,0,0\n", "line 2: num_decodes = 0: the step computes nothing"),
        ("dur_ms,num_decodes,decode_context\n1,-1,0\n", "line 2: num_decodes = -1: must be at least 0"),
        ("dur_ms,num_decodes,decode_context\n1,,0\n", 'line 2: num_decodes = "": needs a value'),
        (
            "dur_ms,num_decodes,decode_context,prefill_tokens,num_prefills\n1,1,1,5,6\n",
            "line 2: num_prefills = 6: 5 prefill tokens come in 1 to 5 chunks",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_log_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MeasurementError) as error:
        read_measurements(str(path))
    assert message in str(error.value)


def test_benchmark_results_give_the_law_back(tmp_path: Path) -> None:
    runs = [(1, 500, 200), (4, 500, 200), (16, 500, 200), (32, 1000, 400), (8, 1500, 300), (1, 1500, 200)]
    found = calibrate([read_measurements(path) for path in write_bench(tmp_path, BENCH, runs)], ABOUT)
    step_time = found.profile.step_time
    assert isinstance(step_time, TwoLawStepTime)
    loads = [load for load in random_loads(200) if load.num_decodes <= 32 and not load.prefill_tokens]
    relative = predicted_ns(step_time, loads) / predicted_ns(BENCH, loads) - 1
    assert abs(relative).max() < 0.06
    assert step_time.mixed.per_prefill_token_ps == pytest.approx(BENCH.mixed.per_prefill_token_ps, rel=0.1)
    assert found.profile.errors["latencies of a run"].mean_percent < 5
    assert not any("one length" in text for text in found.warnings)


def test_runs_of_one_length_cant_tell_context_from_sequences(tmp_path: Path) -> None:
    paths = write_bench(tmp_path, BENCH, [(1, 500, 200), (8, 500, 200), (32, 500, 200)])
    found = calibrate([read_measurements(path) for path in paths], ABOUT)
    assert any("prompts and answers of one length" in text for text in found.warnings)
    assert isinstance(found.profile.step_time, TwoLawStepTime)
    assert found.profile.step_time.decode.per_context_token_ps == 0
    per_seq = BENCH.decode.per_seq_ps + 600 * BENCH.decode.per_context_token_ps
    assert found.profile.step_time.decode.per_seq_ps == pytest.approx(per_seq, rel=0.1)


def test_one_concurrency_is_too_few(tmp_path: Path) -> None:
    paths = write_bench(tmp_path, BENCH, [(4, 500, 200)])
    with pytest.raises(ConfigError, match="at least 2 concurrencies"):
        calibrate([read_measurements(paths[0])], ABOUT)


def test_a_document_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text, message in (
        ('{"completed": 1,\n', "x.json, line 2: not JSON"),
        ("[]", "not a result of vllm bench serve --save-result: completed, duration"),
        ('{"completed": 1, "completed": 2}', '"completed" is given twice'),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(MeasurementError) as error:
            read_measurements(str(path))
        assert message in str(error.value)


def test_both_kinds_at_once_are_refused(tmp_path: Path) -> None:
    (log := tmp_path / "steps.csv").write_text("dur_ms,num_decodes,decode_context\n1,1,1\n", encoding="utf-8")
    (bench,) = write_bench(tmp_path, BENCH, [(2, 100, 20)])
    with pytest.raises(ConfigError, match="can't be fitted together"):
        calibrate([read_measurements(str(log)), read_measurements(bench)], ABOUT)


def test_a_calibration_is_a_profile_that_reads_back(tmp_path: Path) -> None:
    profile = from_log(tmp_path, step_log(TRUE, random_loads(300))).profile
    path = tmp_path / "mine.json"
    path.write_text(profile.to_json(), encoding="utf-8")
    assert read_profile(path) == profile
