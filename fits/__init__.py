"""Scripts that fit the step times of `kvlab.step_time` to public measurements: `python -m fits`.

How, and with what errors: docs/step-time.md.
The measurements are other people's and stay where they are; only coefficients, ranges and errors are written.
"""
