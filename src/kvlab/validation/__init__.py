"""How near the simulator comes to real servers: two recorded runs, logged capacities, public cases; misses, too.

`numbers.json` holds what was computed from the recorded runs and from the cases, and nothing that was recorded. A page
is made from these numbers; where the recordings are at hand, the runs are simulated anew.
"""
