"""Node repair: nodes that stay unhealthy are deleted, unless too many are (gate NodeRepair)."""
