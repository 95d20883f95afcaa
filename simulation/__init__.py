"""Simulated time: all services, the cluster, the AWS emulator and Redis on one event loop, as a function of one seed.

A run executes the services unmodified: their client libraries write bytes to connections in memory, their timers fire
in virtual time, and every source of randomness is derived from the seed. The same seed, scenario and code give the same
events in the same order, in any process on any machine.
"""

import shared  # noqa: F401 - Ctrl-C ends in one line, also during the imports that follow
