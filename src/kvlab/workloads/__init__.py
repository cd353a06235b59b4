"""Traffic: synthetic arrivals and lengths, closed-loop users, recorded traces. The only place that draws numbers."""
