"""The simulation's users, faults and promises against real processes: `make chaos MINUTES=30`.

A stack of real services, a real Redis, the API server and the AWS emulator runs as `dovetail up` starts it. Processes
get real SIGKILL, SIGTERM and SIGSTOP; Redis is killed, emptied, stopped and full; whatever services send to Redis, to
the API server and to AWS passes proxies that cut, delay, hold up and refuse it.
Times are real, so a run is not repeatable: the seed repeats what is done, not what happens.
"""
