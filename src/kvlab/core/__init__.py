"""The simulated engine: integers in, integers out, standard library only."""
