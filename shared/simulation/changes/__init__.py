"""Which change of a pod or a pool would place a pending pod, proven by planning again."""
