"""The delta log of memory as columns: one numpy array per figure of a stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.core.memory import Stay

Ints = npt.NDArray[np.int64]

NEVER: Final = -1
"""Of `decode_step`: the stay ended before its first token."""


class StayColumns(NamedTuple):
    """One entry per stay; see `kvlab.core.memory.Stay`."""

    request_id: Ints
    start_step: Ints
    end_step: Ints
    decode_step: Ints
    initial_blocks: Ints
    growth_step: Ints
    block_size: Ints
    num_blocks: Ints
    blocks: Ints
    """Of all stays, one after the other."""

    @property
    def first_entry(self) -> Ints:
        """Where the blocks of each stay begin."""
        return np.cumsum(self.num_blocks) - self.num_blocks


def stay_columns(stays: Sequence[Stay]) -> StayColumns:
    """The columns of some stays, in their order."""
    num_blocks = _column(len(stay.blocks) for stay in stays)
    blocks = np.fromiter(chain.from_iterable([stay.blocks for stay in stays]), np.int64, int(num_blocks.sum()))
    return StayColumns(
        request_id=_column(stay.request_id for stay in stays),
        start_step=_column(stay.start_step for stay in stays),
        end_step=_column(stay.end_step for stay in stays),
        decode_step=_column(NEVER if stay.decode_step is None else stay.decode_step for stay in stays),
        initial_blocks=_column(stay.initial_blocks for stay in stays),
        growth_step=_column(stay.growth_step for stay in stays),
        block_size=_column(stay.block_size for stay in stays),
        num_blocks=num_blocks,
        blocks=blocks,
    )


def _column(values: Iterable[Any]) -> Ints:
    return np.fromiter(values, np.int64)
