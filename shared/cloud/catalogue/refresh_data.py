"""``python -m shared.cloud.catalogue.refresh_data``: write the tables of ``data/`` anew (IT-05, IT-17, IT-42).

    on-demand-prices.json   the Price List API, for one region; other regions in the file stay
    network-bandwidth.json  DescribeInstanceTypes, for types that the table lacks: what it has is AWS' documentation,
                            which rounds otherwise and says what several cards carry together
    vpc-limits.json         no API tells it: --vpc-limits names a copy of limits.go of the Amazon VPC resource
                            controller (pkg/aws/vpc); without it the table stays

Credentials, and rights to read prices and instance types, are those of the environment. What may go wrong: AWS
refuses, or a file is not what it should be: the command says so and writes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from shared import log as logs
from shared.cloud.catalogue.reference_data import (
    BANDWIDTH,
    DATA,
    FALLBACK_REGION,
    LIMITS,
    PRICES,
    BandwidthFile,
    LimitsFile,
    PriceFile,
    VpcLimit,
)
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import Clock, SystemClock, rfc3339
from shared.distribution.version import VERSION
from shared.errors import ConfigurationError, DovetailError

_ENTRY = re.compile(r'^\t"([a-z0-9.-]+)": \{$(.*?)^\t\},$', re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"(\w+):\s+(\d+|true|false),")
_FEWEST_LIMITS = 500
"""Less is not the whole table."""


def parse_limits(source: str) -> dict[str, VpcLimit]:
    """Instance type -> limits, from the text of limits.go. Raises ConfigurationError for any other text."""
    try:
        found = {name: _limit(body) for name, body in _ENTRY.findall(source)}
    except (KeyError, IndexError) as error:
        raise ConfigurationError(f"--vpc-limits: an entry lacks {error}") from error
    if len(found) < _FEWEST_LIMITS:
        raise ConfigurationError(
            f"--vpc-limits: {len(found)} instance types are in the file; take pkg/aws/vpc/limits.go of the "
            "Amazon VPC resource controller"
        )
    return dict(sorted(found.items()))


def _limit(body: str) -> VpcLimit:
    written = _FIELD.findall(body)
    fields = dict(written)
    return VpcLimit(
        interfaces=int(fields["Interface"]),
        interfaces_per_card=tuple(
            int(value) for name, value in written if name == "MaximumNetworkInterfaces"
        ),
        default_network_card=int(fields["DefaultNetworkCardIndex"]),
        ipv4_per_interface=int(fields["IPv4PerInterface"]),
        trunking=fields["IsTrunkingCompatible"] == "true",
        branch_interfaces=int(fields["BranchInterface"]),
    )


def with_new_bandwidths(
    known: Mapping[str, int], descriptions: Iterable[Mapping[str, Any]]
) -> dict[str, int]:
    """The table with types that it lacked, as far as they have one card of known bandwidth (Mbps)."""
    found: dict[str, int] = {}
    for description in descriptions:
        cards = (description.get("NetworkInfo") or {}).get("NetworkCards") or ()
        baselines = [card.get("BaselineBandwidthInGbps") for card in cards]
        if len(baselines) == 1 and baselines[0]:
            found[description["InstanceType"]] = round(baselines[0] * 1000)
    return dict(sorted({**found, **known}.items()))


def with_prices(
    books: Mapping[str, Mapping[str, float]], region: str, micro_usd: Mapping[str, int]
) -> dict[str, dict[str, float]]:
    """All books with this region's as it was read now, in USD. Raises ConfigurationError when nothing was read."""
    if not micro_usd:
        raise ConfigurationError(f"AWS listed no prices for {region}; is that its name?")
    book = {name: price / 1_000_000 for name, price in sorted(micro_usd.items())}
    return {**{one: dict(prices) for one, prices in books.items()}, region: book}


async def read_tables(
    cloud: Cloud, clock: Clock, directory: Path, limits_source: str | None
) -> dict[str, msgspec.Struct]:
    """File name -> its new content; the old one is read from ``directory``. Raises DovetailError."""
    day = rfc3339(clock.now())[:10]
    prices = msgspec.json.decode((directory / PRICES).read_bytes(), type=PriceFile)
    bandwidth = msgspec.json.decode((directory / BANDWIDTH).read_bytes(), type=BandwidthFile)
    listed = await cloud.pricing.on_demand(cloud.region)
    described = await cloud.ec2.instance_types()
    tables: dict[str, msgspec.Struct] = {
        PRICES: PriceFile(
            f"AWS Pricing API, Linux on-demand, shared tenancy, USD per hour, {cloud.region} as of {day}",
            with_prices(prices.prices, cloud.region, listed.prices),
        ),
        BANDWIDTH: BandwidthFile(
            f"EC2 documentation, baseline network bandwidth in Mbps; newer types from EC2 as of {day}",
            with_new_bandwidths(bandwidth.megabits_per_second, described),
        ),
    }
    if limits_source is not None:
        note = f"Amazon VPC resource controller limits, as of {day}"
        tables[LIMITS] = LimitsFile(note, parse_limits(limits_source))
    return tables


def written(table: msgspec.Struct) -> bytes:
    """One value a line, so that a refresh is readable as a difference."""
    return json.dumps(msgspec.to_builtins(table), indent=0, sort_keys=True).encode()


async def refresh(
    region: str, endpoint_url: str | None, directory: Path, limits_source: str | None
) -> list[str]:
    """Write the files; what was written, for people. Nothing is written unless everything could be read."""
    clock = SystemClock()
    cloud = await Cloud.connect(
        region=region,
        endpoint_url=endpoint_url,
        clock=clock,
        random=random.SystemRandom(),
        user_agent=f"dovetail-refresh-data/{VERSION}",
    )
    try:
        tables = await read_tables(cloud, clock, directory, limits_source)
    finally:
        await cloud.close()
    done = []
    for name, table in tables.items():
        content = written(table)
        await asyncio.to_thread((directory / name).write_bytes, content)
        done.append(f"{directory / name}: {len(content)} bytes")
    return done


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Write shared/cloud/catalogue/data anew from AWS.")
    parser.add_argument("--region", default=FALLBACK_REGION, help="default: %(default)s")
    parser.add_argument("--endpoint-url", help="another AWS endpoint, for example the local one")
    parser.add_argument("--directory", type=Path, default=DATA, help="default: %(default)s")
    parser.add_argument(
        "--vpc-limits", type=Path, help="limits.go of the Amazon VPC resource controller"
    )
    chosen = parser.parse_args(arguments)
    logs.configure("warning", stream=sys.stderr)
    try:
        source = chosen.vpc_limits and chosen.vpc_limits.read_text()
        done = asyncio.run(refresh(chosen.region, chosen.endpoint_url, chosen.directory, source))
    except (DovetailError, OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        sys.stderr.write(f"nothing was written: {error}\n")
        return 1
    sys.stdout.write("\n".join(done) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
