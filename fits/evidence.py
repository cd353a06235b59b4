"""How many laws a step needs: four kinds fitted to the same sums of kernel times, for docs/step-time.md.

Half the steps only decode, half have a chunk; errors are on as many other steps. With each kind the real run on the RTX
4090 is replayed, to which none of them was fitted.
"""

from __future__ import annotations

import numpy as np

from fits.data import need
from fits.replay import replay
from fits.serving import CASES, ONE_CHUNK, Case, Run, between, decodes, judge, kernel_ns, mixed
from kvlab.core.step_time import AnyStepTime, DecodeLaw, KneeStepTime, StepLoad, TwoLawStepTime
from kvlab.step_time.fit import errors_of, fit_relative
from kvlab.step_time.laws import columns, fit_decode, fit_mixed, fit_mixed_knee, predicted_ns
from kvlab.step_time.profiles import profile

NO_CONTEXT = (*ONE_CHUNK, "decode_context", "prefill_context", "chunk_context")


def main() -> None:
    """Prints the rows of the table."""
    need("runs/RTX4090_Llama-3.1-8B/requests.csv", "perf/llmservingsim_profile/RTX4090_Llama-3.1-8B_tp1/attention.csv")
    for case in CASES:
        for name, step_time in kinds(case).items():
            cells = [case.name, name]
            for loads in (decodes(case, 2), mixed(case, 2)):
                errors = errors_of(predicted_ns(step_time, loads), kernel_ns(case, loads))
                cells.append(f"{errors.mean_percent:.1f} % ({errors.p95_percent:.0f} %)")
            if case.run is not None and case.tp == 1:
                cells.append(judge(case, step_time)[1])
            print(" | ".join(cells))
    from_run(CASES[2])


def from_run(case: Case) -> None:
    """Prints how well laws fitted to the run alone say its decode times and the length of its steps with full chunks.

    Which steps a request has part in is known from a replay by the fitted profile.
    """
    assert case.run is not None
    assert case.engine is not None
    run = Run.read(case.run)
    done = replay(run.arrivals, case.engine, profile(case.name).step_time)
    loads = [step.load for step in done.steps]
    is_mixed = np.array([load.prefill_tokens > 0 for load in loads])[:, None]
    figures = columns(loads, ("one", "num_decodes", "decode_context", "prefill_tokens"))
    measured = 1e9 * (run.last - run.first)
    for name, matrix in (
        ("one law, a token is a token", np.column_stack([figures[:, 0], figures[:, 1] + figures[:, 3], figures[:, 2]])),
        ("one law without context", figures[:, [0, 1, 3]]),
        ("one law", figures),
        ("two laws", np.hstack([figures[:, :3] * ~is_mixed, figures[:, :2] * is_mixed, figures[:, 3:]])),
    ):
        sums = between(done, matrix)
        coefficients = fit_relative(sums[run.fitted], measured[run.fitted])
        held_out = errors_of(sums[~run.fitted] @ coefficients, measured[~run.fitted])
        full = np.array([load.prefill_tokens > 1_900 for load in loads])
        idle = np.array([load.prefill_tokens == 0 and load.num_decodes > 100 for load in loads])
        steps_ms = matrix @ coefficients / 1e6
        print(
            f"{case.name}, run alone | {name} | decode time of held-out requests {held_out.mean_percent:.1f} % |"
            f" a step of 2,048 tokens {steps_ms[full].mean():.0f} ms, one of 128 decodes {steps_ms[idle].mean():.0f} ms"
        )


def kinds(case: Case) -> dict[str, AnyStepTime]:
    """Each kind, fitted."""
    train, mixed_train = decodes(case, 1), mixed(case, 1)
    both = [*train, *mixed_train]
    decode_law = fit_decode(train, kernel_ns(case, train))
    return {
        "one law without context": one_law(case, both, NO_CONTEXT),
        "one law": one_law(case, both, ONE_CHUNK),
        "two laws": TwoLawStepTime(
            decode=decode_law, mixed=fit_mixed(mixed_train, kernel_ns(case, mixed_train), ONE_CHUNK)
        ),
        "two laws with a knee": KneeStepTime(
            decode=(decode_law,),
            mixed=fit_mixed_knee(mixed_train, kernel_ns(case, mixed_train), ONE_CHUNK, num_laws=3),
        ),
    }


def one_law(case: Case, loads: list[StepLoad], without: tuple[str, ...]) -> TwoLawStepTime:
    """The same law for both sorts of step."""
    law = fit_mixed(loads, kernel_ns(case, loads), without)
    decode = DecodeLaw(
        base_ps=law.base_ps, per_seq_ps=law.per_decode_ps, per_context_token_ps=law.per_decode_context_token_ps
    )
    return TwoLawStepTime(decode=decode, mixed=law)


if __name__ == "__main__":
    main()
