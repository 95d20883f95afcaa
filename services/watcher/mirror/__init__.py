"""The picture of the cluster: what the watches show, how it gets to Redis, and whether it is right."""
