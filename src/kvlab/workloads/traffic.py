"""What arrives, as one frozen value; and the requests that it stands for.

Every draw has a stream of its own: "arrivals", "prompt", "output/0" for the first sample, "output/1" for the
second, "long-report". Element i belongs to request i, so a change of one knob never reshuffles another.
Source: MODEL.md, "Traffic".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain, count, repeat
from typing import Final, cast

import numpy as np

from kvlab.core.request import OpenLoop, Request, RequestSource
from kvlab.errors import ConfigError, TraceError, UnknownNameError
from kvlab.units import NS_PER_S, format_duration
from kvlab.workloads.arrivals import ARRIVALS, Gaps, operational_times
from kvlab.workloads.checks import check_number, check_text, check_whole
from kvlab.workloads.closed_loop import ClosedLoop
from kvlab.workloads.lengths import MAX_TOKENS, parse_lengths, sampler
from kvlab.workloads.rates import MAX_FACTOR, RateCurve, RateEvent, parse_rate_events
from kvlab.workloads.streams import CHUNK, Floats, Stream

_BURST_START_NS: Final = 40 * NS_PER_S
_BURST_END_NS: Final = 70 * NS_PER_S
_LONG_REPORT_SHARE: Final = 0.2
_LONG_REPORT_FACTOR: Final = 6
_REQUEST: Final = cast("Callable[[Iterable[object]], Request]", partial(tuple.__new__, Request))
_PLAIN: Final = [repeat(Request._field_defaults[name]) for name in Request._fields[4:]]
"""No hash ids, no priority, no content: what drawn requests have in these fields."""
"""Makes a Request of all its fields, three times faster than by name."""
MAX_SEED: Final = 2**53 - 1
"""Larger ones don't survive a JSON number in other programs."""
MAX_NS: Final = 10 * 365 * 86_400 * NS_PER_S
MAX_REQUESTS: Final = 10**9
DRAWN_ONLY: Final = ("request_rate", "duration_ns", "prompt_tokens", "output_tokens")
"""Settings that a trace takes the place of; so does it of the seed, unless that says who writes long reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Synthetic arrivals, or a recorded trace; and how long prompts and outputs are. MODEL.md, "Traffic"."""

    seed: int = 1
    arrivals: str = "poisson"
    """A key of `ARRIVALS`. With a trace it stays "poisson": the trace brings its own."""
    request_rate: Decimal = Decimal(4)
    """Mean requests per second, before events."""
    burstiness: Decimal = Decimal(1)
    """Shape of gamma gaps: their coefficient of variation is 1/sqrt(burstiness)."""
    max_concurrency: int | None = None
    """Users of a closed loop."""
    think_time_ns: int = 0
    """Closed loop: from the end of a user's request to its next one."""
    duration_ns: int = 120 * NS_PER_S
    """Requests arrive in [0, duration_ns). Not used when `num_requests` or a trace says where it ends."""
    num_requests: int | None = None
    """Stop after that many, whatever the duration."""
    burst: Decimal = Decimal(1)
    """Factor on the rate from 40 s to 70 s; 1 is off, the event's factor is 2.5."""
    rate_events: str = ""
    """Such as "burst(40 s, 70 s, 2.5); ramp(0 s, 60 s, 1, 3)"; where events overlap their factors multiply."""
    prompt_tokens: str = "uniform(200, 1500)"
    output_tokens: str = "exponential(250, max=1500)"
    longer_answers: Decimal = Decimal(1)
    """Factor on outputs before rounding and the cap; 1 is off, the event's factor is 2."""
    long_report_users: bool = False
    """One request in five has outputs six times longer, before rounding and the cap."""
    num_samples: int = 1
    """Outputs per request, each with a length of its own (with a trace: the same length)."""
    trace: str | None = None
    """Path of a recorded trace; then arrivals and lengths come from there."""
    trace_format: str | None = None
    """A key of `TRACE_FORMATS`; None detects it."""
    trace_columns: str | None = None
    """Which columns of a csv, jsonl or parquet trace mean what: "arrival=ts:ms, prompt=in, output=out"."""
    trace_from_ns: int = 0
    """Rows from that time on, counted from the first row of the trace, on its own clock."""
    trace_until_ns: int | None = None
    """Rows before that time."""
    trace_speed: Decimal = Decimal(1)
    """2 replays the trace in half the time."""

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, 0, MAX_SEED)
        check_text("arrivals", self.arrivals)
        if self.arrivals not in ARRIVALS:
            raise UnknownNameError("arrivals", self.arrivals, ARRIVALS)
        check_number("request_rate", self.request_rate, "0.000001", "1000000")
        check_number("burstiness", self.burstiness, "0.01", "10000")
        check_whole("think_time_ns", self.think_time_ns, 0, MAX_NS)
        check_whole("duration_ns", self.duration_ns, 1, MAX_NS)
        check_number("burst", self.burst, "0", str(MAX_FACTOR))
        check_number("longer_answers", self.longer_answers, "0.001", "1000")
        check_whole("num_samples", self.num_samples, 1, 1024)
        if self.max_concurrency is not None:
            check_whole("max_concurrency", self.max_concurrency, 1, 1_000_000)
        if self.num_requests is not None:
            check_whole("num_requests", self.num_requests, 1, MAX_REQUESTS)
        if not isinstance(self.long_report_users, bool):
            raise ConfigError("long_report_users", self.long_report_users, "expected true or false")
        for field in ("rate_events", "prompt_tokens", "output_tokens"):
            check_text(field, getattr(self, field))
        parse_lengths(self.prompt_tokens, "prompt_tokens")
        parse_lengths(self.output_tokens, "output_tokens")
        parse_rate_events(self.rate_events, "rate_events")
        self._check_trace()
        self._check_arrivals()

    def _check_arrivals(self) -> None:
        """A knob that would do nothing with these arrivals is an error, not ignored."""
        closed = self.arrivals == "closed-loop"
        if closed and self.max_concurrency is None:
            raise ConfigError("max_concurrency", None, "closed-loop arrivals need a number of users, such as 64")
        if not closed and self.max_concurrency is not None:
            raise ConfigError("max_concurrency", self.max_concurrency, "only users of arrivals = closed-loop")
        if not closed and self.think_time_ns:
            raise ConfigError("think_time_ns", self.think_time_ns, "only users of arrivals = closed-loop think")
        if self.arrivals != "gamma" and self.burstiness != 1:
            raise ConfigError("burstiness", self.burstiness, "only arrivals = gamma have it; others keep 1")
        if self.arrivals == "all-at-once" and self.num_requests is None:
            raise ConfigError("num_requests", None, "all-at-once arrivals need a number of requests, such as 100")
        if self.trace is None and not ARRIVALS[self.arrivals].follows_rate:
            self._refuse_events(f"arrivals = {self.arrivals} follow no rate; drop the event")
        elif self.trace is None and self.num_requests is None:
            expected = self.rate_curve().expected(self.duration_ns)
            if expected > MAX_REQUESTS:
                raise ConfigError("request_rate", self.request_rate, f"about {round(expected):,} requests would arrive;"
                                  f" at most {MAX_REQUESTS:,}: lower it, or shorten duration_ns")  # fmt: skip

    def _check_trace(self) -> None:
        check_whole("trace_from_ns", self.trace_from_ns, 0, MAX_NS)
        check_number("trace_speed", self.trace_speed, "0.000001", "1000000")
        if self.trace_until_ns is not None:
            check_whole("trace_until_ns", self.trace_until_ns, 1, MAX_NS)
            if self.trace_until_ns <= self.trace_from_ns:
                raise ConfigError(
                    "trace_until_ns", self.trace_until_ns, f"must be after trace_from_ns = {self.trace_from_ns}"
                )
        if self.trace is None:
            for field in ("trace_format", "trace_columns", "trace_from_ns", "trace_until_ns"):
                if getattr(self, field):
                    raise ConfigError(field, getattr(self, field), "there is no trace: name its file as trace")
            if self.trace_speed != 1:
                raise ConfigError("trace_speed", self.trace_speed, "there is no trace: name its file as trace")
            return
        check_text("trace", self.trace)
        if self.arrivals != "poisson":
            raise ConfigError("arrivals", self.arrivals, "the trace brings its own arrivals; leave this at poisson")
        self._refuse_events("the trace brings its own arrivals; drop the event, or the trace")
        if not self.trace:
            raise ConfigError("trace", self.trace, "expected the name of a file")
        from kvlab.workloads.traces import check_reading  # only traffic that needs files loads the readers

        check_reading(self.trace_format, self.trace_columns)

    def _refuse_events(self, remedy: str) -> None:
        if self.burst != 1:
            raise ConfigError("burst", self.burst, remedy)
        if self.rate_events.strip():
            raise ConfigError("rate_events", self.rate_events, remedy)

    def idle(self) -> dict[str, str]:
        """Settings that can't change anything beside the others, and what to do about each.

        They always have a value, so that only a scenario, which knows its lab's own values, can tell who asked for one.
        """
        if self.trace is not None:
            remedy = "the trace brings its own arrivals and lengths; use trace_until_ns (--until) to cut it"
            names = DRAWN_ONLY if self.long_report_users else (*DRAWN_ONLY, "seed")
            return dict.fromkeys(names, remedy)
        if not ARRIVALS[self.arrivals].follows_rate:
            return {"request_rate": f"arrivals = {self.arrivals} follow no rate; drop it"}
        return {}

    def rate_curve(self) -> RateCurve:
        """The rate over time, events included."""
        return RateCurve(Decimal(self.request_rate), self.events())

    def events(self) -> tuple[RateEvent, ...]:
        """Changes of the rate, `burst` among them."""
        events = parse_rate_events(self.rate_events, "rate_events")
        if self.burst != 1:
            factor = Decimal(self.burst)
            events += (RateEvent(_BURST_START_NS, _BURST_END_NS, factor, factor),)
        return events

    @property
    def window_ns(self) -> int | None:
        """How long requests arrive, where the settings say so; None where a count or the end of a trace does."""
        if self.trace is not None:
            if self.trace_until_ns is None:
                return None
            return int((self.trace_until_ns - self.trace_from_ns) / Fraction(self.trace_speed))
        return self.duration_ns if self.num_requests is None else None


def requests(traffic: Traffic, *, max_tokens: int | None = None) -> Iterator[Request]:
    """Requests in order of arrival, made as they are asked for.

    Args:
        max_tokens: longest answer that a row of a trace may have; drawn ones are capped by `output_tokens`.
    Raises:
        ConfigError: closed-loop arrivals, which only a running server brings about: see `source`.
        TraceError: the trace, or a file of lengths, can't be used.
    """
    if traffic.trace is not None:
        return _recorded(traffic, traffic.trace, max_tokens)
    gaps = ARRIVALS[traffic.arrivals].gaps
    if gaps is None:
        raise ConfigError("arrivals", traffic.arrivals, "they depend on the server: take source(traffic)")
    return _synthetic(traffic, gaps)


def source(traffic: Traffic, *, max_tokens: int | None = None) -> RequestSource:
    """The same requests, or the users of a closed loop, as an engine takes them.

    Raises:
        TraceError: see `requests`; rows further down raise when they are reached.
    """
    if ARRIVALS[traffic.arrivals].gaps is not None:
        return OpenLoop(requests(traffic, max_tokens=max_tokens))
    assert traffic.max_concurrency is not None, "checked by the constructor"
    return ClosedLoop(
        chain.from_iterable(zip(*chunk, strict=True) for chunk in _sizes(traffic)),
        num_users=traffic.max_concurrency,
        think_time_ns=traffic.think_time_ns,
        until_ns=traffic.duration_ns if traffic.num_requests is None else None,
        num_requests=traffic.num_requests,
    )


def _synthetic(traffic: Traffic, gaps: Gaps) -> Iterator[Request]:
    curve = traffic.rate_curve()
    sizes = _sizes(traffic)
    num_made = 0
    for units in operational_times(gaps, traffic.seed, Decimal(traffic.burstiness)):
        times = curve.times_ns(units)
        if traffic.num_requests is not None:
            del times[traffic.num_requests - num_made :]
        elif times[-1] >= traffic.duration_ns:
            del times[bisect_left(times, traffic.duration_ns) :]
        prompts, outputs = next(sizes)
        yield from map(_REQUEST, zip(count(num_made), times, prompts, outputs, *_PLAIN, strict=False))
        num_made += len(times)
        if len(times) < CHUNK:
            return


def _recorded(traffic: Traffic, path: str, max_tokens: int | None) -> Iterator[Request]:
    from kvlab.workloads.traces import read_trace  # only traffic that needs files loads the readers

    num, den = Fraction(traffic.trace_speed).as_integer_ratio()
    from_ns, until_ns = traffic.trace_from_ns, traffic.trace_until_ns
    scales = chain.from_iterable(chunk.tolist() for chunk in _output_scales(traffic))
    num_made = time_ns = 0
    for row in read_trace(path, traffic.trace_format, traffic.trace_columns):
        time_ns = row.arrival_ns
        if time_ns < from_ns:
            continue
        if num_made == traffic.num_requests or (until_ns is not None and time_ns >= until_ns):
            break
        output = min(max(1, round(row.output_tokens * next(scales))), MAX_TOKENS)
        if max_tokens is not None and output > max_tokens:
            problem = f"more than max_tokens = {max_tokens:,}; raise max_tokens"
            raise TraceError(path, problem, line=row.line, field="output_tokens", value=output)
        arrival_ns = (time_ns - from_ns) * den // num
        outputs = (output,) * traffic.num_samples
        yield Request(num_made, arrival_ns, row.prompt_tokens, outputs, row.hash_ids)
        num_made += 1
    if not num_made:
        where = f"from {format_duration(from_ns)} on" if until_ns is None else (
            f"from {format_duration(from_ns)} until {format_duration(until_ns)}")  # fmt: skip
        raise TraceError(path, f"no request {where}; one arrives at {format_duration(time_ns)}: move the window")


def _sizes(traffic: Traffic) -> Iterator[tuple[list[int], list[tuple[int, ...]]]]:
    """Prompt lengths, and output lengths of all samples, of the next `CHUNK` requests."""
    draw_prompt = sampler(parse_lengths(traffic.prompt_tokens, "prompt_tokens"))
    draw_output = sampler(parse_lengths(traffic.output_tokens, "output_tokens"))
    prompt = Stream(traffic.seed, "prompt")
    outputs = [Stream(traffic.seed, f"output/{sample}") for sample in range(traffic.num_samples)]
    for scale in _output_scales(traffic):
        prompts = draw_prompt(prompt.take(CHUNK), 1.0).tolist()
        samples = [draw_output(stream.take(CHUNK), scale).tolist() for stream in outputs]
        yield prompts, list(zip(*samples, strict=True))


def _output_scales(traffic: Traffic) -> Iterator[Floats]:
    """What the events multiply the outputs of the next `CHUNK` requests by."""
    factor = float(traffic.longer_answers)
    if not traffic.long_report_users:
        yield from repeat(np.full(CHUNK, factor))
    stream = Stream(traffic.seed, "long-report")
    while True:
        long = stream.take(CHUNK) < _LONG_REPORT_SHARE
        yield np.where(long, factor * _LONG_REPORT_FACTOR, factor)
