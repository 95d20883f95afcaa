"""The simulated network: connections in memory, and what may happen to them."""
