"""Profiles go into the package; what was found is said on the way."""

from __future__ import annotations

from fits.data import PROFILES
from kvlab.step_time.profiles import Profile


def write(profile: Profile) -> None:
    """One file per profile."""
    path = PROFILES / f"{profile.name}.json"
    path.write_text(profile.to_json(), encoding="utf-8")
    print(profile.name)
    for name, errors in profile.errors.items():
        print(
            f"  {name}: {errors.mean_percent} % mean, {errors.p95_percent} % p95, {errors.bias_percent:+} % bias,"
            f" {errors.points} points"
        )
    print(f"  held out: {profile.provenance.held_out_on}")
