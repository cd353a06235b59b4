"""Many scenarios at once: axes, points, workers, a store that survives a kill, and one table of results."""
