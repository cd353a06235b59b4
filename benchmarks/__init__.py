"""What kvlab costs: time, memory, and where the time goes. `python -m benchmarks --help`."""
