"""How long a step of a serving engine lasts, from what it computes. Whole numbers in, whole nanoseconds out.

A step that only decodes reads the weights and the KV of its sequences: memory sets its time. A step with prefill
tokens multiplies large matrices: arithmetic does. One affine law can't say both, so most kinds here have one for each.
Coefficients are in picoseconds, summed exactly and rounded down to nanoseconds once; no step lasts less than 1 ns.

The kinds are values with two methods (`StepTime`). Where their coefficients come from is left to `kvlab.step_time`.
Formulas with units: docs/step-time.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, NamedTuple, Protocol

from kvlab.errors import ConfigError, UnknownNameError

PS_PER_NS: Final = 1_000
PS_PER_S: Final = 10**12
PERMILLE: Final = 1_000


class StepLoad(NamedTuple):
    """What one step computes. A *chunk* is what one prefilling sequence computes in the step."""

    num_running: int
    """Sequences of the running list, scheduled in this step or not."""
    num_decodes: int
    """Sequences that compute one token, their last known one."""
    decode_context: int
    """Tokens with KV of the decoding sequences when the step ends."""
    prefill_tokens: int
    """Computed in this step by all chunks."""
    prefill_context: int
    """Summed over chunks: tokens whose KV was there before."""
    chunk_context: int
    """Summed over chunks: (query, key) pairs, see `chunk_pairs`."""
    num_prefills: int
    """Chunks."""


def chunk_pairs(chunk: int, before: int) -> int:
    """(query, key) pairs of a chunk: each token attends to those before the chunk, and to the chunk up to itself.

    >>> chunk_pairs(3, 10)  # 11 + 12 + 13
    36
    """
    return chunk * before + chunk * (chunk + 1) // 2


class StepTime(Protocol):
    """The duration of a step from its load."""

    @property
    def grows_with_context(self) -> bool:
        """Whether equal steps get longer as their sequences do."""

    def decode_ns(self, num_seqs: int, context_tokens: int) -> int:
        """A step in which every running sequence decodes, and nothing else happens.

        Args:
            num_seqs: decoding sequences.
            context_tokens: tokens with KV of all of them when the step ends.
        """

    def mixed_ns(self, load: StepLoad) -> int:
        """Any other step. Without prefill tokens it lasts as long as its decodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearStepTime:
    """base + per_running x running + per_decode x decodes + per_prefill_token x prefill tokens, in ns.

    Source: the labs, and the cost of the goldens of the vLLM scheduler.
    """

    base_ns: int
    per_running_ns: int = 0
    per_decode_ns: int = 0
    per_prefill_token_ns: int = 0

    def __post_init__(self) -> None:
        _check_counts(self)

    @property
    def grows_with_context(self) -> bool:
        """Never."""
        return False

    def decode_ns(self, num_seqs: int, context_tokens: int) -> int:
        """See `StepTime`."""
        return self.base_ns + (self.per_running_ns + self.per_decode_ns) * num_seqs or 1

    def mixed_ns(self, load: StepLoad) -> int:
        """See `StepTime`."""
        seqs_ns = self.per_running_ns * load.num_running + self.per_decode_ns * load.num_decodes
        return self.base_ns + seqs_ns + self.per_prefill_token_ns * load.prefill_tokens or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLaw:
    """base + per_seq x sequences + per_context_token x context, in ps: for steps that only decode."""

    base_ps: int
    per_seq_ps: int = 0
    per_context_token_ps: int = 0

    def __post_init__(self) -> None:
        _check_counts(self)

    def ps(self, num_seqs: int, context_tokens: int) -> int:
        """The law's value."""
        return self.base_ps + self.per_seq_ps * num_seqs + self.per_context_token_ps * context_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedLaw:
    """An affine law over the figures of `StepLoad`, in ps: for steps with prefill tokens.

    Context weighs three times: what decodes read, what chunks read, and the pairs that chunks compute.
    """

    base_ps: int
    per_decode_ps: int = 0
    per_decode_context_token_ps: int = 0
    per_prefill_ps: int = 0
    """Per chunk."""
    per_prefill_token_ps: int = 0
    per_prefill_context_token_ps: int = 0
    per_chunk_pair_ps: int = 0

    def __post_init__(self) -> None:
        _check_counts(self)

    def ps(self, load: StepLoad) -> int:
        """The law's value."""
        _, num_decodes, decode_context, prefill_tokens, prefill_context, chunk_context, num_prefills = load
        return (
            self.base_ps
            + self.per_decode_ps * num_decodes
            + self.per_decode_context_token_ps * decode_context
            + self.per_prefill_ps * num_prefills
            + self.per_prefill_token_ps * prefill_tokens
            + self.per_prefill_context_token_ps * prefill_context
            + self.per_chunk_pair_ps * chunk_context
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLawStepTime:
    """One affine law for steps that only decode, another for those with prefill tokens."""

    decode: DecodeLaw
    mixed: MixedLaw

    @property
    def grows_with_context(self) -> bool:
        """Unless a context token of a decode costs nothing."""
        return self.decode.per_context_token_ps > 0

    def decode_ns(self, num_seqs: int, context_tokens: int) -> int:
        """See `StepTime`."""
        return self.decode.ps(num_seqs, context_tokens) // PS_PER_NS or 1

    def mixed_ns(self, load: StepLoad) -> int:
        """See `StepTime`."""
        if load.prefill_tokens == 0:
            return self.decode_ns(load.num_decodes, load.decode_context)
        return self.mixed.ps(load) // PS_PER_NS or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KneeStepTime:
    """The largest of several affine laws, for each of the two sorts of step.

    Up to some batch a step reads all weights and lasts as long as that; beyond, it lasts longer with each token. The
    first is a flat law, the second a steep one, and the step lasts as long as the larger: a knee where they meet.
    """

    decode: tuple[DecodeLaw, ...]
    mixed: tuple[MixedLaw, ...]

    def __post_init__(self) -> None:
        for name in ("decode", "mixed"):
            if not getattr(self, name):
                raise ConfigError(name, "()", "needs at least one law")

    @property
    def grows_with_context(self) -> bool:
        """Unless a context token of a decode costs nothing in every law."""
        return any(law.per_context_token_ps > 0 for law in self.decode)

    def decode_ns(self, num_seqs: int, context_tokens: int) -> int:
        """See `StepTime`."""
        return max([law.ps(num_seqs, context_tokens) for law in self.decode]) // PS_PER_NS or 1

    def mixed_ns(self, load: StepLoad) -> int:
        """See `StepTime`."""
        if load.prefill_tokens == 0:
            return self.decode_ns(load.num_decodes, load.decode_context)
        return max([law.ps(load) for law in self.mixed]) // PS_PER_NS or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineStepTime:
    """What a step must compute and read, over what the GPU can do of it, plus overheads.

        step = host overhead + layers x layer overhead
             + max(2 x params x tokens / flops, weight bytes / bandwidth)            matrices of the layers
             + max(2 x head params x sequences / flops, head bytes / bandwidth)      the language-model head
             + decode context x KV bytes / bandwidth                                 attention of decodes
             + max(4 x attention width x layers x pairs / flops, prefill context x KV bytes / bandwidth)   of chunks
             + 2 x layers x (collective latency + tokens x hidden bytes / collective bandwidth)            if tp > 1

    Layers are alike, so the larger of two sums is the sum of the larger per layer. Sizes are those of the whole model;
    weights, KV and arithmetic are spread evenly over `tp` GPUs. Rates are a GPU's peak, in units per second, of which
    the efficiencies are reached, in per mille. Each quotient is rounded down to picoseconds.
    """

    tp: int
    layers: int
    layer_params: int
    """Parameters that each token is multiplied with: active ones, without embedding and head."""
    layer_weight_bytes: int
    """Read in each step."""
    head_params: int
    """Of the language-model head, that each sequence with a new token is multiplied with."""
    head_weight_bytes: int
    kv_bytes_per_token: int
    attention_width: int
    """Query heads x head dimension."""
    hidden_bytes: int
    """Of a token between two layers: what a collective carries."""
    peak_flops: int
    """Of one GPU, dense, in the precision of the weights, per second."""
    peak_bytes_per_s: int
    """Memory bandwidth of one GPU."""
    gemm_compute_permille: int
    gemm_memory_permille: int
    attention_compute_permille: int
    attention_memory_permille: int
    host_ns: int = 0
    """Per step: scheduling, launching, sampling, detokenizing."""
    per_layer_ns: int = 0
    """Norms, activations, rotary embedding, launch gaps."""
    per_prefill_ns: int = 0
    collective_ns: int = 0
    """Latency of one all-reduce; there are two per layer."""
    collective_bytes_per_s: int = 1
    """Bytes of the tensor over the time beyond the latency."""

    def __post_init__(self) -> None:
        _check_counts(self)
        _check_counts(self, "tp", "layers", "peak_flops", "peak_bytes_per_s", at_least=1)
        _check_counts(self, "gemm_compute_permille", "gemm_memory_permille", "collective_bytes_per_s", at_least=1)
        _check_counts(self, "attention_compute_permille", "attention_memory_permille", at_least=1)

    @property
    def grows_with_context(self) -> bool:
        """Unless a token has no KV."""
        return self.kv_bytes_per_token > 0

    def decode_ns(self, num_seqs: int, context_tokens: int) -> int:
        """See `StepTime`."""
        ps = self._dense_ps(num_seqs, num_seqs)
        ps += self._read_ps(self.kv_bytes_per_token * context_tokens, self.attention_memory_permille)
        return ps // PS_PER_NS or 1

    def mixed_ns(self, load: StepLoad) -> int:
        """See `StepTime`."""
        if load.prefill_tokens == 0:
            return self.decode_ns(load.num_decodes, load.decode_context)
        ps = self._dense_ps(load.num_decodes + load.prefill_tokens, load.num_decodes + load.num_prefills)
        ps += self._read_ps(self.kv_bytes_per_token * load.decode_context, self.attention_memory_permille)
        ps += self.per_prefill_ns * PS_PER_NS * load.num_prefills
        pairs_flops = 4 * self.attention_width * self.layers * load.chunk_context
        ps += max(
            self._compute_ps(pairs_flops, self.attention_compute_permille),
            self._read_ps(self.kv_bytes_per_token * load.prefill_context, self.attention_memory_permille),
        )
        return ps // PS_PER_NS or 1

    def _dense_ps(self, tokens: int, seqs: int) -> int:
        """All but attention."""
        ps = (self.host_ns + self.layers * self.per_layer_ns) * PS_PER_NS
        ps += max(
            self._compute_ps(2 * self.layer_params * tokens, self.gemm_compute_permille),
            self._read_ps(self.layer_weight_bytes, self.gemm_memory_permille),
        )
        ps += max(
            self._compute_ps(2 * self.head_params * seqs, self.gemm_compute_permille),
            self._read_ps(self.head_weight_bytes, self.gemm_memory_permille),
        )
        if self.tp > 1:
            moved_ps = tokens * self.hidden_bytes * PS_PER_S // self.collective_bytes_per_s
            ps += 2 * self.layers * (self.collective_ns * PS_PER_NS + moved_ps)
        return ps

    def _compute_ps(self, flops: int, permille: int) -> int:
        return flops * (PS_PER_S * PERMILLE) // (self.tp * self.peak_flops * permille)

    def _read_ps(self, count_bytes: int, permille: int) -> int:
        return count_bytes * (PS_PER_S * PERMILLE) // (self.tp * self.peak_bytes_per_s * permille)


AnyStepTime = LinearStepTime | TwoLawStepTime | KneeStepTime | RooflineStepTime

STEP_TIMES: Final[dict[str, type[AnyStepTime]]] = {
    "linear": LinearStepTime,
    "two-law": TwoLawStepTime,
    "knee": KneeStepTime,
    "roofline": RooflineStepTime,
}
"""Name -> kind."""

_LAWS: Final[dict[tuple[str, str], type[DecodeLaw | MixedLaw]]] = {
    ("two-law", "decode"): DecodeLaw,
    ("two-law", "mixed"): MixedLaw,
    ("knee", "decode"): DecodeLaw,
    ("knee", "mixed"): MixedLaw,
}
"""(kind, field) -> what that field holds: one law, or of the knee a list of them."""


def kind_of(step_time: AnyStepTime) -> str:
    """Its name in `STEP_TIMES`."""
    return next(name for name, kind in STEP_TIMES.items() if type(step_time) is kind)


def to_dict(step_time: AnyStepTime) -> dict[str, Any]:
    """A document that `from_dict` reads back as an equal value."""
    document: dict[str, Any] = {"kind": kind_of(step_time)}
    for field in fields(step_time):
        value = getattr(step_time, field.name)
        if isinstance(value, tuple):
            document[field.name] = [_numbers(law) for law in value]
        else:
            document[field.name] = value if isinstance(value, int) else _numbers(value)
    return document


def from_dict(document: object, where: str = "step_time") -> AnyStepTime:
    """The value that a document of `to_dict` stands for; a coefficient that isn't there takes its default.

    Raises:
        ConfigError: not such a document: names the field, the value and what would be accepted.
        UnknownNameError: a kind or a field that doesn't exist.
    """
    given = _mapping(document, where)
    name = given.get("kind")
    if not isinstance(name, str):
        raise ConfigError(f"{where}.kind", name, f"expected one of {', '.join(STEP_TIMES)}")
    if name not in STEP_TIMES:
        raise UnknownNameError("kind of step time", name, STEP_TIMES)
    values: dict[str, Any] = {}
    for field, value in given.items():
        place = f"{where}.{field}"
        law = _LAWS.get((name, field))
        if field == "kind":
            continue
        if law is None:
            values[field] = value
        elif name == "knee":
            if not isinstance(value, list):
                raise ConfigError(place, value, "expected a list of laws")
            values[field] = tuple(_build(law, _mapping(item, place), place) for item in value)
        else:
            values[field] = _build(law, _mapping(value, place), place)
    step_time: AnyStepTime = _build(STEP_TIMES[name], values, where)
    return step_time


def _build(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    """A value of a dataclass from its fields by name; the place is told with what is wrong."""
    known = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in known:
            raise UnknownNameError(f"field of {where}", str(name), known)
    for name, field in known.items():
        if field.default is MISSING and name not in values:
            raise ConfigError(f"{where}.{name}", None, "is missing: give a whole number")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error.field}", error.value, error.remedy) from None


def _mapping(document: object, where: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise ConfigError(where, document, "expected an object with one number per coefficient")
    return document


def _numbers(law: DecodeLaw | MixedLaw) -> dict[str, int]:
    return {field.name: getattr(law, field.name) for field in fields(law)}


def _check_counts(value: Any, *names: str, at_least: int = 0) -> None:
    """Every named field, or every one, is a whole number that is large enough."""
    for name in names or [field.name for field in fields(value)]:
        given = getattr(value, name)
        if not isinstance(given, int) or isinstance(given, bool):
            raise ConfigError(name, given, "expected a whole number")
        if given < at_least:
            raise ConfigError(name, given, f"must be at least {at_least}")
