"""Scripts that fit the step times in `kvlab/step_time/` to public measurements: `python -m fits`. See docs/step-time.md.

The measurements are other people's and stay where they are; only coefficients, ranges and errors are written.
"""
