"""A figure that says where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

GIVEN: Final = "given"
MEASURED: Final = "measured"
DERIVED: Final = "derived"
ASSUMED: Final = "assumed"
PROVENANCES: Final = {
    GIVEN: "as you gave it",
    MEASURED: "read from a log, a driver or a data sheet; the source is named",
    DERIVED: "computed by the formula that is named, from figures of this list",
    ASSUMED: "a constant or a default that fits what engines logged, but was not measured for this case",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a capacity, with its provenance."""

    value: int | Fraction
    unit: str
    provenance: str
    """A key of `PROVENANCES`."""
    source: str
    """The formula or the place that it was read from."""

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON; a fraction to six digits after the point."""
        value = self.value if isinstance(self.value, int) else round(float(self.value), 6)
        return {"value": value, "unit": self.unit, "provenance": self.provenance, "source": self.source}
