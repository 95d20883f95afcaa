"""``GET /debug/profile``: where a running service spends its time, sampled in its own process."""
