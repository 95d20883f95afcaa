"""``python -m local.cluster``: the local cluster, configured by environment variables."""

from __future__ import annotations

import asyncio
import sys

from pydantic import ValidationError

from local.cluster.cluster import run_cluster
from local.cluster.settings import ClusterSettings, describe_settings
from shared.errors import ConfigurationError
from shared.log import configure

USAGE = "python -m local.cluster: a small Kubernetes cluster in one process\n\nEnvironment:\n"


def main(arguments: list[str]) -> int:
    """Run the cluster. Returns 0 after a clean stop and 2 for invalid settings."""
    if arguments:
        sys.stdout.write(f"{USAGE}{describe_settings()}\n")
        return 0 if arguments[0] in ("-h", "--help") else 2
    try:
        settings = ClusterSettings()
        configure(settings.log_level)
        asyncio.run(run_cluster(settings))
    except ValidationError as error:
        problems = [f"{e['loc'][0]}: {e['msg']}".upper() for e in error.errors()]
        sys.stderr.write("\n".join(problems) + "\n")
        return 2
    except ConfigurationError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
