"""What is remembered of library functions gives the same answers as the functions themselves."""

from __future__ import annotations

from io import StringIO
from typing import Any

import yaml

from simulation.servers.warming import remembered_dump

CONFIG = {"spec": {"flags": ["--node-labels=b=1,a=2"], "maxPods": 29}, "kind": "NodeConfig"}


def test_a_text_is_written_once_and_is_that_of_pyyaml() -> None:
    written: list[Any] = []

    def dump(value: object, *words: Any, **options: Any) -> Any:
        written.append(value)
        return yaml.safe_dump(value, *words, **options)

    remembered = remembered_dump(dump)
    for sort_keys in (False, True):
        for value in (CONFIG, dict(CONFIG), {**CONFIG, "kind": "Other"}):
            assert remembered(value, sort_keys=sort_keys) == yaml.safe_dump(
                value, sort_keys=sort_keys
            )
    assert len(written) == 4


def test_other_options_and_streams_are_left_to_pyyaml() -> None:
    remembered, stream = remembered_dump(yaml.safe_dump), StringIO()
    remembered(CONFIG, stream, sort_keys=False)
    assert stream.getvalue() == yaml.safe_dump(CONFIG, sort_keys=False)
    assert remembered(CONFIG, width=20) == yaml.safe_dump(CONFIG, width=20)
