"""The simulation's users, faults and promises against real processes: `make chaos MINUTES=30`.

A stack of real services, a real Redis, the API server and the AWS emulator runs as `dovetail up` starts it. Processes
get real SIGKILL, SIGTERM and SIGSTOP; Redis is killed, emptied and stopped; calls to AWS pass a proxy that cuts them.
Times are real, so a run is not repeatable: the seed repeats what is done, not what happens.
"""
