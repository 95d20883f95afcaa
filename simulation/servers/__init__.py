"""The servers of the simulated world: Redis, AWS and the API server, each on the loop and without a thread."""
