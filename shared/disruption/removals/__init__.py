"""Lower bounds that show, without a plan, that a removal saves nothing."""
