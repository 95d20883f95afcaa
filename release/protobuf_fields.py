"""Writes fields.json, the field numbers of the built-in kinds, from the sources of k8s.io/api.

    go mod download k8s.io/api@v0.34.0 k8s.io/apimachinery@v0.34.0
    python -m release.protobuf_fields API_DIRECTORY APIMACHINERY_DIRECTORY

Types and numbers come from the generated.proto files; JSON names, and what JSON leaves out when it is
zero, from the struct tags in the Go files beside them. Nothing is written unless the table decodes
every example that k8s.io/api carries of the kinds in it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from local.cluster.api.protobuf.decoding import TABLE_FILE, Table, UnknownKindError

GROUPS = (
    "admissionregistration/v1", "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1",
    "autoscaling/v2", "batch/v1", "coordination/v1", "core/v1", "discovery/v1", "networking/v1", "policy/v1",
    "rbac/v1", "scheduling/v1", "storage/v1",
)  # fmt: skip
META = ("meta/v1", "pkg/apis/meta/v1")
MACHINERY = (
    META,
    ("resource", "pkg/api/resource"),
    ("intstr", "pkg/util/intstr"),
    ("runtime", "pkg/runtime"),
)
SCALARS = {"string": "s", "bytes": "y", "bool": "b", "int32": "i", "int64": "i", "double": "d"}
_MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE
)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAGS = re.compile(
    r'^\t(?:\w+\s+)?(\*?)\S+\s+`json:"([^"]*)"[^`]*protobuf:"\w+,(\d+),', re.MULTILINE
)
_GROUP_NAME = re.compile(r'GroupName = "(.*)"')

Fields = dict[str, list[str]]
"""number -> [JSON name, type, how: "", "repeated", "map", "inline" or "nonzero"]."""


def messages_of(package: str, directory: Path) -> Iterator[tuple[str, Fields]]:
    """(name with package, fields) of every message of one folder."""
    tags = _tags(directory)
    text = (directory / "generated.proto").read_text()
    for name, body in _MESSAGE.findall(text):
        fields = {}
        for repetition, plain, mapped, own, number in _FIELD.findall(body):
            pointer, label = tags.get((name, number), ("*", own))
            how = "map" if mapped else "repeated" if repetition == "repeated" else ""
            fields[number] = _field(package, plain or mapped, how, pointer, label.split(","), own)
        yield f"{package}.{name}", fields


def _field(
    package: str, field_type: str, how: str, pointer: str, label: list[str], own: str
) -> list[str]:
    kind = SCALARS.get(field_type) or _full_name(package, field_type)
    if "inline" in label:
        how = "inline"
    elif not how and not pointer and "omitempty" in label and field_type in SCALARS:
        how = "nonzero"
    return [label[0] or own, kind, how]


def _full_name(package: str, field_type: str) -> str:
    path, _, name = field_type.lstrip(".").rpartition(".")
    if not path:
        return f"{package}.{name}"
    known = {f"k8s.io.apimachinery.{one.replace('/', '.')}": short for short, one in MACHINERY}
    return f"{known.get(path) or path.removeprefix('k8s.io.api.').replace('.', '/')}.{name}"


def _tags(directory: Path) -> dict[tuple[str, str], tuple[str, str]]:
    found = {}
    for path in sorted(directory.glob("*.go")):
        for struct, body in _STRUCT.findall(path.read_text()):
            for pointer, label, number in _TAGS.findall(body):
                found[struct, number] = (pointer, label)
    return found


def table_of(api: Path, machinery: Path) -> dict[str, object]:
    """The whole table, reduced to the messages that a kind can reach."""
    messages: dict[str, Fields] = {}
    for package, folder in MACHINERY:
        messages |= messages_of(package, machinery / folder)
    kinds: dict[str, str] = {"DeleteOptions": "meta/v1.DeleteOptions"}
    for group in GROUPS:
        own = dict(messages_of(group, api / group))
        found = _GROUP_NAME.search((api / group / "register.go").read_text())
        version = f"{found[1]}/{group.partition('/')[2]}".lstrip("/") if found else group
        kinds |= {
            f"{version} {name.rpartition('.')[2]}": name for name in own if _is_kind(own[name])
        }
        messages |= own
    return {"kinds": kinds, "messages": _reachable(messages, set(kinds.values()))}


def _is_kind(fields: Fields) -> bool:
    return fields.get("1", ["", ""])[1] == "meta/v1.ObjectMeta"


def _reachable(messages: dict[str, Fields], names: set[str]) -> dict[str, Fields]:
    found: set[str] = set()
    while names:
        name = names.pop()
        found.add(name)
        names |= {field[1] for field in messages[name].values() if field[1] in messages} - found
    return {name: messages[name] for name in sorted(found)}


def check_examples(table: Table, directory: Path) -> int:
    """The number of decoded examples. Raises ValueError for an example that is decoded wrongly."""
    checked = 0
    for path in sorted(directory.glob("*.pb")):
        try:
            decoded = table.decode(path.read_bytes())
        except UnknownKindError:
            continue
        if decoded != json.loads(path.with_suffix(".json").read_text()):
            raise ValueError(f"{path.name}: decoded as {decoded}")
        checked += 1
    return checked


def main(api: Path, machinery: Path) -> None:
    """Write the table that ``local.cluster.api.protobuf`` reads."""
    found = table_of(api, machinery)
    count = check_examples(Table(found), api / "testdata" / "HEAD")
    TABLE_FILE.write_text(json.dumps(found, separators=(",", ":"), sort_keys=True) + "\n")
    sys.stdout.write(f"{TABLE_FILE}: {count} examples decoded\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
