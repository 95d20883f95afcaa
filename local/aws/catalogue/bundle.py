"""``python -m local.aws.catalogue.bundle``: write the catalogue that simulations use by default.

The emulator runs in this process, and the code that reads AWS reads types, zones and prices from it. ``--region`` and
``--output`` write any region into any file; ``regional_catalogue`` does so in a process of its own.

A region that the emulator does not know has no offerings and raises ConfigurationError.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from local.aws.moto.resources import import_moto
from local.aws.settings import EmulatorSettings
from local.stack_plan import clean_environment
from shared import log as logs
from shared.cloud.catalogue.building import load_catalogue
from shared.cloud.catalogue.bundled import BUNDLED_REGION, FILE, packed, unpacked
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.cloud.catalogue.reference_data import DATA
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.distribution.version import VERSION
from shared.domain.instance_types.types import Catalogue
from shared.errors import ConfigurationError, Unavailable

READ_SECONDS = 120.0
REGION_NAME = re.compile(r"[a-z]{2}(-[a-z]{1,12}){1,3}-[0-9]")
DESTINATION = DATA / FILE
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}


def regional_catalogue(region: str) -> Catalogue:
    """The catalogue of any region that the emulator knows; takes some seconds.

    Raises ConfigurationError for an unknown region, Unavailable when the catalogue cannot be read.
    """
    if not REGION_NAME.fullmatch(region):
        raise ConfigurationError(f"{region[:40]!r} is no AWS region; use for example eu-west-1")
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / FILE
        command = [sys.executable, "-m", "local.aws.catalogue.bundle"]
        try:
            done = subprocess.run(
                [*command, "--region", region, "--output", str(output)],
                env=clean_environment(os.environ),
                capture_output=True,
                text=True,
                check=False,
                timeout=READ_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"reading the catalogue of {region} takes too long") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Unavailable(
                f"cannot read the catalogue of {region}, if there is such a region: {last[:500]}"
            )
        found = unpacked(output.read_bytes())
    if not found.types:
        raise ConfigurationError(f"no instance types are known for the region {region}")
    return found


@contextmanager
def _serving(region: str) -> Iterator[str]:
    """The URL of an emulator that runs during the block. moto is imported here, reduced to the data of the region."""
    import_moto(region)
    from local.aws.emulator import Emulator
    from local.aws.http.wsgi import build_server
    from local.aws.seeding import seed

    settings = EmulatorSettings(region=region, seed=False, port=0, host="127.0.0.1")
    emulator = Emulator(settings, SystemClock(), seed)
    server = build_server(emulator)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield f"http://{settings.host}:{server.port}"
    finally:
        server.shutdown()


async def _read(region: str, url: str) -> Catalogue:
    cloud = await Cloud.connect(
        region=region,
        endpoint_url=url,
        clock=SystemClock(),
        random=Random(0),
        user_agent=f"dovetail-bundle/{VERSION}",
    )
    try:
        built, _ = await load_catalogue(cloud, ModelSettings())
        return built.catalogue
    finally:
        await cloud.close()


def main() -> None:
    """Write the file and print a summary."""
    parser = argparse.ArgumentParser(description="Write the catalogue of one region, compressed.")
    parser.add_argument("--region", default=BUNDLED_REGION, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=DESTINATION, help="default: %(default)s")
    chosen = parser.parse_args()
    logs.configure("error")
    # The emulator accepts any credentials; the machine's real ones must not be used.
    os.environ.update(CREDENTIALS)
    with _serving(chosen.region) as url:
        found = asyncio.run(_read(chosen.region, url))
    content = packed(found)
    chosen.output.write_bytes(content)
    sys.stdout.write(f"{chosen.output}: {len(found.types)} types, {len(content)} bytes\n")


if __name__ == "__main__":
    main()
