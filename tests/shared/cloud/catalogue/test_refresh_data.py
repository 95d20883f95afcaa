"""The command that writes the tables anew (IT-05, IT-17, IT-20, IT-42)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from shared.cloud.catalogue.reference_data import (
    BANDWIDTH,
    DATA,
    LIMITS,
    PRICES,
    BandwidthFile,
    LimitsFile,
    PriceFile,
    VpcLimit,
    vpc_limits,
)
from shared.cloud.catalogue.refresh_data import (
    main,
    parse_limits,
    with_new_bandwidths,
    with_prices,
    written,
)
from shared.errors import ConfigurationError

KINDS = {LIMITS: LimitsFile, BANDWIDTH: BandwidthFile, PRICES: PriceFile}


def go_entry(name: str, limit: VpcLimit) -> str:
    """As limits.go writes one."""
    cards = "".join(
        f"\t\t\t{{\n\t\t\t\tMaximumNetworkInterfaces: {count},\n"
        f"\t\t\t\tNetworkCardIndex:         {index},\n\t\t\t}},\n"
        for index, count in enumerate(limit.interfaces_per_card)
    )
    return (
        f'\t"{name}": {{\n'
        f"\t\tInterface:               {limit.interfaces},\n"
        f"\t\tIPv4PerInterface:        {limit.ipv4_per_interface},\n"
        f"\t\tIsTrunkingCompatible:    {str(limit.trunking).lower()},\n"
        f"\t\tBranchInterface:         {limit.branch_interfaces},\n"
        f"\t\tDefaultNetworkCardIndex: {limit.default_network_card},\n"
        f"\t\tNetworkCards: []NetworkCard{{\n{cards}\t\t}},\n"
        '\t\tHypervisor:  "nitro",\n\t\tIsBareMetal: false,\n\t},\n'
    )


def go_source(limits: dict[str, VpcLimit]) -> str:
    entries = "".join(go_entry(name, limit) for name, limit in limits.items())
    return f"package vpc\n\nvar Limits = map[string]*VPCLimits{{\n{entries}}}\n"


@pytest.mark.parametrize("name", [LIMITS, BANDWIDTH, PRICES])
def test_a_table_written_again_is_the_same_file(name: str) -> None:
    """So a refresh shows in a diff what AWS changed and nothing else; each table says its source."""
    content = (DATA / name).read_bytes()
    table = msgspec.json.decode(content, type=KINDS[name])
    assert "as of 20" in table.source
    assert written(table) == content


def test_the_controllers_table_is_read_in_full() -> None:
    """IT-20: table of network interfaces."""
    assert parse_limits(go_source(vpc_limits())) == vpc_limits()


@pytest.mark.parametrize(
    "text", ["", "<html>not found</html>", go_source({"m5.large": vpc_limits()["m5.large"]})]
)
def test_any_other_file_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"limits\.go"):
        parse_limits(text)


def test_an_entry_that_lacks_a_number_is_refused() -> None:
    text = go_source(vpc_limits()).replace("BranchInterface:", "Branches:", 1)
    with pytest.raises(ConfigurationError, match="BranchInterface"):
        parse_limits(text)


def test_only_types_that_the_table_lacks_take_their_bandwidth_from_ec2() -> None:
    """IT-42: labels of an instance's size."""
    one, two = {"BaselineBandwidthInGbps": 0.781}, [{"BaselineBandwidthInGbps": 200.0}] * 2
    described: list[dict[str, Any]] = [
        {"InstanceType": "m5.large", "NetworkInfo": {"NetworkCards": [one]}},
        {"InstanceType": "m99.large", "NetworkInfo": {"NetworkCards": [one]}},
        {"InstanceType": "m99.metal", "NetworkInfo": {"NetworkCards": two}},
        {"InstanceType": "m98.large", "NetworkInfo": {"NetworkCards": [{}]}},
        {"InstanceType": "m97.large"},
    ]
    found = with_new_bandwidths({"m5.large": 750}, described)
    assert found == {"m5.large": 750, "m99.large": 781}


def test_prices_of_one_region_leave_those_of_others() -> None:
    """IT-05: on-demand prices."""
    books = {"us-east-1": {"m5.large": 0.096}, "eu-west-1": {"m5.large": 0.1}}
    found = with_prices(books, "eu-west-1", {"m5.large": 107_000})
    assert found == {"us-east-1": {"m5.large": 0.096}, "eu-west-1": {"m5.large": 0.107}}
    with pytest.raises(ConfigurationError, match="eu-west-9"):
        with_prices(books, "eu-west-9", {})


@pytest.fixture(autouse=True)
def logging() -> Iterator[None]:
    """The command logs to the stderr of its test, which ends with the test."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name in KINDS:
        shutil.copy(DATA / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_the_command_writes_all_tables_from_any_endpoint(
    tables: Path, aws_emulator_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """IT-05: on-demand prices; IT-17: branch interfaces."""
    source = tables / "limits.go"
    limits = vpc_limits() | {"m99.large": VpcLimit(3, (3,), 0, 10, True, 9)}
    source.write_text(go_source(limits))
    arguments = ["--region", "us-west-2", "--endpoint-url", aws_emulator_url]
    assert main([*arguments, "--directory", str(tables), "--vpc-limits", str(source)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    prices = msgspec.json.decode((tables / PRICES).read_bytes(), type=PriceFile)
    assert prices.prices["us-west-2"]["m5.large"] == 0.096
    assert prices.prices["us-east-1"]["m5.large"] == 0.096
    assert "us-west-2" in prices.source
    known = msgspec.json.decode((tables / LIMITS).read_bytes(), type=LimitsFile)
    assert known.limits["m99.large"].branch_interfaces == 9


def test_a_wrong_file_changes_nothing(
    tables: Path,
    aws_emulator_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = ["--directory", str(tables), "--vpc-limits", str(tables / "nothing.go")]
    assert main(missing) == 1
    (tables / BANDWIDTH).write_text("{")
    endpoint = ["--region", "us-west-2", "--endpoint-url", aws_emulator_url]
    assert main([*endpoint, "--directory", str(tables)]) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert (tables / PRICES).read_bytes() == (DATA / PRICES).read_bytes()
    assert (tables / BANDWIDTH).read_text() == "{"
