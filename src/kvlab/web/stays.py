"""The delta log of memory as columns: one numpy array per figure of a stay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.core.memory import Copied, Stay

Ints = npt.NDArray[np.int64]

NEVER: Final = -1
"""Of `decode_step`: the stay ended before its first token."""
FINISHED, RECOMPUTE, SWAP, RESUMED, OPEN = range(5)
_ENDS: Final = {"finished": FINISHED, "recompute": RECOMPUTE, "swap": SWAP, "resumed": RESUMED, "open": OPEN}


class StayColumns(NamedTuple):
    """One entry per stay; see `kvlab.core.memory.Stay`."""

    request_id: Ints
    start_step: Ints
    end_step: Ints
    decode_step: Ints
    initial_blocks: Ints
    growth_step: Ints
    block_size: Ints
    end: Ints
    """Why it ended: one of the numbers above."""
    segment: Ints
    """(first token, length), one row each; no rows where memory is paged."""
    num_blocks: Ints
    blocks: Ints
    """Of all stays, one after the other."""
    copies: list[tuple[int, Copied]]
    """(place of the stay, its copy on write)."""
    may_share: bool
    """Whether there are several samples of a request: they may hold the same block."""

    @property
    def first_entry(self) -> Ints:
        """Where the blocks of each stay begin."""
        return np.cumsum(self.num_blocks) - self.num_blocks


def stay_columns(stays: Sequence[Stay]) -> StayColumns:
    """The columns of some stays, in their order; all in blocks, or all in segments."""
    turned: list[tuple[Any, ...]] = list(zip(*stays, strict=True)) or [()] * len(Stay._fields)
    column = dict(zip(Stay._fields, turned, strict=True))
    num_blocks = _ints(list(map(len, column["blocks"])))
    return StayColumns(
        request_id=_ints(column["request_id"]),
        start_step=_ints(column["start_step"]),
        end_step=_ints(column["end_step"]),
        decode_step=_ints([NEVER if step is None else step for step in column["decode_step"]]),
        initial_blocks=_ints(column["initial_blocks"]),
        growth_step=_ints(column["growth_step"]),
        block_size=_ints(column["block_size"]),
        end=_ints([_ENDS[end] for end in column["end"]]),
        segment=_ints([segment for segment in column["segment"] if segment is not None]).reshape(-1, 2),
        num_blocks=num_blocks,
        blocks=np.fromiter(chain.from_iterable(column["blocks"]), np.int64, int(num_blocks.sum())),
        copies=[(place, copied) for place, copied in enumerate(column["copied"]) if copied is not None],
        may_share=any(column["sample"]),
    )


def _ints(values: Sequence[Any]) -> Ints:
    return np.array(values, np.int64)
