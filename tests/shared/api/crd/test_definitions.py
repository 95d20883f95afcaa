"""From a model to a CustomResourceDefinition, said with models of the tests' own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pytest
import yaml
from pydantic import Field

from shared.api.crd.definitions import HEADER, crd_file, crd_text, custom_resource_definition
from shared.api.crd.field_tables import reference_text
from shared.api.crd.model import ApiModel, Rule
from shared.api.crd.structural import attribute_docstrings, structural_schema
from shared.api.schema.kinds import Column, KindInfo, Resource
from shared.api.schema.scalars import DurationOrNever, Quantity, ResourceList
from tests.support.cluster.structural_rules import (
    cost_faults,
    default_faults,
    rule_faults,
    structure_faults,
)

Schema = dict[str, Any]


class Seat(ApiModel):
    """One seat
    of a boat."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "a folding seat\n  has no number", "!self.folding || !has(self.number)", lambda raw: ()
        ),
        Rule("said in Python only", check=lambda raw: ()),
    )

    folding: bool = False
    """Whether it folds."""
    number: Annotated[int, Field(ge=1, le=99)] | None = None
    """Printed on the seat."""


class Engine(ApiModel):
    """What drives the boat, with settings of its maker."""

    PRESERVE_UNKNOWN: ClassVar[bool] = True

    fuel: Literal["diesel"] = "diesel"
    """What it burns."""
    litres: Annotated[float, Field(gt=0, lt=1000)] | None = None
    """Size of the tank."""


class Service(ApiModel):
    """When the boat is looked after (B-01, B-02..B-04)."""

    every: DurationOrNever = "720h"
    """Time between two looks."""
    reasons: list[str] = Field(default=[], max_length=5)
    """Why at all."""
    note: str | None = None
    """For the mechanic."""


class BoatSpec(ApiModel):
    """What a boat is."""

    RULES: ClassVar[tuple[Rule, ...]] = (Rule("yard cannot change", "self.yard == oldSelf.yard"),)

    yard: Annotated[str, Field(min_length=1, max_length=63, pattern="^[a-z|]+$")]
    """Who built it."""
    seats: list[Seat] = Field(default=[], max_length=20)
    """Where people sit."""
    captain_seat: Seat | None = None
    """The best
    place."""
    engine: Engine | None = None
    """What drives it."""
    colour: Literal["red", "blue"] | None = None
    """Paint."""
    load: Quantity = None
    """How much it carries."""
    stores: ResourceList = Field(default={})
    """What is on board."""
    flags: dict[Annotated[str, Field(max_length=9)], str] = Field(default={}, max_length=10)
    """Flags by <name>."""
    extra: dict[str, Any] = Field(default={})
    """Anything."""
    free: Any = None
    """Whatever there is."""
    berth: int | str | None = None
    """Number or name."""
    crew: int = 0
    """People on board."""
    service: Service = Service()
    """Care."""


class BoatStatus(ApiModel):
    """How the boat is."""

    ready: bool = False
    """Whether it floats."""


class Boat(Resource):
    """A Boat carries people."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="harbour.test",
        version="v1",
        kind="Boat",
        plural="boats",
        short_names=("bo",),
        categories=("fleet",),
        columns=(Column("Yard", ".spec.yard"), Column("Crew", ".spec.crew", "integer", wide=True)),
        scale=(".spec.crew", ".status.crew"),
    )

    spec: BoatSpec
    """What is wanted."""
    status: BoatStatus | None = None
    """What is there."""


DEFINITION = custom_resource_definition(Boat)
(VERSION,) = DEFINITION["spec"]["versions"]
ROOT: Schema = VERSION["schema"]["openAPIV3Schema"]
SPEC: dict[str, Schema] = ROOT["properties"]["spec"]["properties"]


def test_the_names_of_the_kind_are_those_of_its_info() -> None:
    """API-02: cluster-scoped, with category and short names."""
    assert DEFINITION["metadata"]["name"] == "boats.harbour.test"
    assert DEFINITION["metadata"]["annotations"] == {"dovetail.sh/generated-by": "make crds"}
    assert DEFINITION["spec"]["scope"] == "Cluster"
    assert DEFINITION["spec"]["names"] == {
        "kind": "Boat",
        "listKind": "BoatList",
        "plural": "boats",
        "singular": "boat",
        "shortNames": ["bo"],
        "categories": ["fleet"],
    }
    assert crd_file(Boat.INFO) == "harbour.test_boats.yaml"


def test_wide_columns_have_priority_one() -> None:
    assert VERSION["additionalPrinterColumns"] == [
        {"name": "Yard", "type": "string", "jsonPath": ".spec.yard"},
        {"name": "Crew", "type": "integer", "jsonPath": ".spec.crew", "priority": 1},
    ]


def test_subresources_are_status_and_scale_when_given() -> None:
    assert VERSION["subresources"] == {
        "status": {},
        "scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"},
    }


def test_the_root_leaves_metadata_to_the_api_server() -> None:
    assert ROOT["properties"]["metadata"] == {"type": "object"}
    assert ROOT["properties"]["kind"]["type"] == "string"
    assert ROOT["required"] == ["spec"]
    assert ROOT["description"] == "A Boat carries people."


def test_the_schema_is_structural_and_its_rules_and_defaults_hold() -> None:
    for faults in (structure_faults, default_faults, rule_faults, cost_faults):
        assert list(faults(ROOT)) == []


def test_a_field_that_may_be_absent_is_its_type_and_not_required() -> None:
    assert SPEC["colour"] == {"type": "string", "enum": ["red", "blue"], "description": "Paint."}
    assert ROOT["properties"]["spec"]["required"] == ["yard"]


def test_objects_stand_in_place_with_the_description_of_their_field() -> None:
    assert SPEC["captainSeat"]["description"] == "The best place."
    assert SPEC["seats"]["items"]["description"] == "One seat of a boat."
    assert SPEC["captainSeat"]["properties"] == SPEC["seats"]["items"]["properties"]


def test_references_to_the_specification_are_for_developers() -> None:
    assert structural_schema(Service)["description"] == "When the boat is looked after."


def test_bounds_are_kept_and_open_bounds_become_marks() -> None:
    yard = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z|]+$"}
    assert SPEC["yard"] == {**yard, "description": "Who built it."}
    litres = SPEC["engine"]["properties"]["litres"]
    assert (litres["minimum"], litres["exclusiveMinimum"]) == (0, True)
    assert (litres["maximum"], litres["exclusiveMaximum"]) == (1000, True)
    assert SPEC["flags"]["maxProperties"] == 10
    assert SPEC["flags"]["additionalProperties"] == {"type": "string"}


def test_integers_are_as_wide_as_their_bounds_allow() -> None:
    assert SPEC["crew"]["format"] == "int64"
    assert SPEC["captainSeat"]["properties"]["number"]["format"] == "int32"


def test_a_constant_is_an_enumeration_of_one() -> None:
    assert SPEC["engine"]["properties"]["fuel"]["enum"] == ["diesel"]


@pytest.mark.parametrize("field", [SPEC["load"], SPEC["stores"]["additionalProperties"]])
def test_a_quantity_is_a_number_or_a_text_that_matches(field: Schema) -> None:
    assert field["x-kubernetes-int-or-string"] is True
    assert field["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert field["pattern"]
    assert "type" not in field


def test_a_number_or_name_is_said_the_way_api_servers_know_it() -> None:
    assert SPEC["berth"]["x-kubernetes-int-or-string"] is True


def test_open_objects_keep_what_no_schema_knows() -> None:
    kept = {"x-kubernetes-preserve-unknown-fields": True}
    assert SPEC["extra"] == {"type": "object", "description": "Anything.", **kept}
    assert SPEC["free"] == {"description": "Whatever there is.", **kept}
    assert SPEC["engine"].items() >= kept.items()
    assert "fuel" in SPEC["engine"]["properties"]


def test_a_default_is_there_when_it_says_something() -> None:
    """Null and emptiness are what absence means already; false and zero are said."""
    defaults = {name: field["default"] for name, field in SPEC.items() if "default" in field}
    assert defaults == {"crew": 0, "service": {"every": "720h"}}
    assert SPEC["seats"]["items"]["properties"]["folding"]["default"] is False


def test_a_rule_sits_on_its_object_once_cel_can_say_it() -> None:
    assert SPEC["seats"]["items"]["x-kubernetes-validations"] == [
        {"rule": "!self.folding || !has(self.number)", "message": "a folding seat has no number"}
    ]


def test_a_rule_about_changes_goes_out_the_same_way() -> None:
    (rule,) = ROOT["properties"]["spec"]["x-kubernetes-validations"]
    assert rule == {"rule": "self.yard == oldSelf.yard", "message": "yard cannot change"}


TEXTS = {"type": "array", "items": {"type": "string", "maxLength": 9}}


def ruled(rule: str, **fields: Schema) -> Schema:
    rules = [{"rule": rule, "message": "no"}]
    return {"type": "object", "properties": fields, "x-kubernetes-validations": rules}


KEYED = ruled("self.key.matches('^[a-z]{90}$')", key={"type": "string", "maxLength": 316})
LISTED = {"type": "array", "maxItems": 200, "items": KEYED}
MANY_PATTERNS = {"type": "array", "maxItems": 200, "items": LISTED}


@pytest.mark.parametrize(
    ("faults", "schema"),
    [
        (structure_faults, {"type": "string", "title": "Name"}),
        (structure_faults, {"description": "no type"}),
        (structure_faults, {"type": "string", "anyOf": [{"type": "string"}, {"type": "null"}]}),
        (structure_faults, {"type": "integer", "exclusiveMinimum": 3}),
        (structure_faults, {"type": "string", "pattern": "^(?!a)"}),
        (structure_faults, {"type": "object", "required": ["a"]}),
        (structure_faults, {"type": "array"}),
        (default_faults, {"type": "integer", "default": "three"}),
        (default_faults, {"type": "object", "properties": {}, "default": {"a": 1}}),
        (rule_faults, ruled("self.a ==", a={"type": "string"})),
        (rule_faults, ruled("self.b == 'x'", a={"type": "string"})),
        (rule_faults, ruled("self.namespace == 'x'", namespace={"type": "string"})),
        (rule_faults, {"type": "array", "items": ruled("self == oldSelf")}),
        (cost_faults, ruled("self.a.all(x, x != '')", a=TEXTS)),
        (cost_faults, {"type": "array", "items": ruled("self.a", a={"type": "boolean"})}),
        (cost_faults, MANY_PATTERNS),
    ],
)
def test_what_an_api_server_refuses_is_found(faults: Any, schema: Schema) -> None:
    """The checks of ``tests.support.cluster.structural_rules`` themselves."""
    assert list(faults(schema)) != []
    assert list(cost_faults(ruled("has(self.a)", a=TEXTS))) == []
    assert list(cost_faults(LISTED)) == []


class Shelf(ApiModel):
    """Says what the dialect cannot."""

    thing: Seat | Engine
    """One of two objects."""


class Box(ApiModel):
    """Holds boxes."""

    inner: Box | None = None
    """Another one."""


class Pair(ApiModel):
    """Has a place for each of two."""

    both: tuple[int, str]
    """First and second."""


@pytest.mark.parametrize(
    ("model", "words"),
    [(Shelf, "thing: .* union"), (Box, "nested too deeply"), (Pair, "both: .* prefixItems")],
)
def test_what_the_dialect_cannot_say_stops_the_generator(model: type[ApiModel], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        structural_schema(model)


def test_the_same_models_give_the_same_bytes() -> None:
    text = crd_text(Boat)
    assert text == crd_text(Boat)
    assert text.startswith(HEADER)
    assert yaml.safe_load(text) == DEFINITION
    assert "&id" not in text, "an alias would hide where a part came from"


@pytest.mark.parametrize(
    "row",
    [
        "| **`spec.yard`** | string |  | Who built it. 1 to 63 characters; matches "
        "`^[a-z\\|]+$`. |",
        "| `spec.seats` | list of object |  | Where people sit. At most 20 entries. |",
        "| `spec.seats[].folding` | boolean | `false` | Whether it folds. |",
        "| `spec.stores` | map to quantity |  | What is on board. |",
        "| `spec.service.every` | duration or Never | `720h` | Time between two looks. |",
        "| `spec.colour` | string |  | Paint. One of `red`, `blue`. |",
        "| `spec.engine.litres` | number |  | Size of the tank. More than 0; less than 1000. |",
        "| `spec.captainSeat.number` | integer |  | Printed on the seat. 1 to 99. |",
        "| `spec.flags` | map to string |  | Flags by &lt;name>. At most 10 entries. |",
        "| `spec.berth` | integer or string |  | Number or name. |",
        "| `spec.extra` | any object |  | Anything. |",
    ],
)
def test_the_reference_has_a_row_for_every_field(row: str) -> None:
    assert row in reference_text([Boat]).splitlines()


def test_the_reference_tells_the_rules_and_not_what_every_object_has() -> None:
    text = reference_text([Boat])
    assert "- `spec.seats[]`: a folding seat has no number" in text
    assert "`metadata`" not in text


class ChildSeat(Seat):
    folding: bool = True
    """Never for a child."""


def test_the_words_below_a_field_are_read_when_a_crd_is_made_not_when_a_class_is() -> None:
    """Reading sources takes longer than checking a small file."""
    assert Seat.model_fields["folding"].description is None
    assert attribute_docstrings(Seat)["folding"] == "Whether it folds."
    assert attribute_docstrings(ChildSeat) == {
        **attribute_docstrings(Seat), "folding": "Never for a child.",
    }  # fmt: skip
