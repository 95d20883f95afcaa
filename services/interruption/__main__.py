"""``python -m services.interruption [--source sqs|imds]``: run this one service."""

import argparse

from shared.runtime.ram import uncollected

with uncollected():
    from services.interruption import service
    from services.interruption.self_managed_nodes import agent
    from shared.runtime.environment import main

ENTRIES = {"sqs": service.ENTRY, "imds": agent.ENTRY}

if __name__ == "__main__":
    source = argparse.ArgumentParser(add_help=False)
    source.add_argument(
        "--source",
        choices=ENTRIES,
        default="sqs",
        help="sqs: the queue and EC2's status checks, once per cluster (default). "
        "imds: the metadata of the instance it runs on, as a DaemonSet.",
    )
    main(*[ENTRIES[source.parse_known_args()[0].source]], options=source)
