from __future__ import annotations

import numpy as np

from kvlab.workloads.streams import Stream


def test_element_i_does_not_depend_on_how_elements_are_taken() -> None:
    whole = Stream(7, "prompt").take(50)
    stream = Stream(7, "prompt")
    assert np.concatenate([stream.take(n) for n in (1, 13, 0, 36)]).tolist() == whole.tolist()


def test_streams_differ_by_name_and_by_seed() -> None:
    first = {
        tuple(Stream(seed, name).take(3)) for seed in (0, 1, 2**53 - 1) for name in ("arrivals", "prompt", "output/0")
    }
    assert len(first) == 9


def test_elements_are_multiples_of_two_to_the_minus_53_from_0_to_1() -> None:
    u = Stream(1, "arrivals").take(10_000)
    scaled = u * 2.0**53
    assert u.min() >= 0
    assert u.max() < 1
    assert (scaled == np.floor(scaled)).all()


def test_the_first_elements_never_change() -> None:
    """They belong to the scenarios that people have saved."""
    assert Stream(1, "arrivals").take(3).tolist() == FIRST


FIRST = [0.8395780972376699, 0.9465425932300099, 0.8734594210977672]
