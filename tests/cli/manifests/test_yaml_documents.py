"""YAML with the place of every field; whatever is in the file, reading it ends soon and without an exception."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.manifests.yaml_documents import DEPTH_LIMIT, Place, read_carefully, read_yaml
from cli.manifests.yaml_quick import quick_values
from cli.manifests.yaml_writing import yaml_text


def only(text: str) -> Any:
    documents, broken = read_yaml(text)
    assert broken is None
    assert [one.faults for one in documents] == [[]]
    return documents[0].value


def test_every_field_has_its_line_and_column() -> None:
    documents, _ = read_yaml("a:\n  - b: 1\n    c: {d: 2}\n  - e\n")
    place_of = documents[0].place_of
    assert place_of(("a", 0, "b")) == Place(2, 5)
    assert place_of(("a", 0, "c", "d")) == Place(3, 9)
    assert place_of(("a", 1)) == Place(4, 5)


TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["yes", "~", "<<", "1e3", "-0", "0x1F", ".inf", "007", "\x85"]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def read_both_ways(text: str) -> None:
    quick, careful = read_yaml(text), read_carefully(text)
    assert repr([one.value for one in quick[0]]) == repr([one.value for one in careful[0]])
    assert [one.faults for one in quick[0]] == [one.faults for one in careful[0]]
    assert quick[1] == careful[1]
    for one, other in zip(quick[0], careful[0], strict=True):
        assert {path: one.place_of(path) for path in other.places} == other.places


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_quick_reading_of_yaml_gives_what_careful_reading_gives(values: list[Any]) -> None:
    read_both_ways(yaml.safe_dump_all(values, allow_unicode=True))


@given(VALUES, st.booleans())
def test_quick_reading_of_json_gives_what_careful_reading_gives(value: Any, ascii: bool) -> None:
    read_both_ways(json.dumps(value, ensure_ascii=ascii))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n---\n",
        "# only a comment",
        "a: &x 1\nb: *x\n",
        "a: 1\na: 2\n",
        "a: !!str 1\nb: !other 2\n",
        "<<: {a: 1}\nb: 2\n",
        "? [a]\n: b\n",
        "a: 1\n---\nb: {\n",
        "{a: 1}",
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": "\\ud83d\\ude00"}',
        '{"a": 1000000000000000000000000000000}',
        "[" * (DEPTH_LIMIT + 1) + "]" * (DEPTH_LIMIT + 1),
        "[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT,
        "- " * (DEPTH_LIMIT + 1) + "x",
        "- " * DEPTH_LIMIT + "x",
    ],
)
def test_unusual_files_are_read_carefully(text: str) -> None:
    read_both_ways(text)


@pytest.mark.parametrize("text", ['{"a": [1, 2]}', "a: [1, 2]\n", "a:\n- 1\n---\n2\n"])
def test_quick_reading_counts_keys_and_values(text: str) -> None:
    """Here five: two objects or lists, a key, and two numbers."""
    assert quick_values(text, yaml.SafeLoader, most_values=5, most_levels=9) is not None
    assert quick_values(text, yaml.SafeLoader, most_values=4, most_levels=9) is None


def test_a_missing_field_has_the_place_of_its_nearest_parent() -> None:
    documents, _ = read_yaml("a:\n  b: 1\n")
    assert documents[0].place_of(("a", "x", 3)) == Place(1, 1)
    assert documents[0].place_of(("a", "b", "c")) == Place(2, 3)


def test_documents_before_wrong_yaml_are_kept() -> None:
    documents, broken = read_yaml("a: 1\n---\nb: 2\n---\nc: d: e\n")
    assert [one.value for one in documents] == [{"a": 1}, {"b": 2}]
    assert broken is not None
    assert broken.place == Place(5, 5)


def test_a_key_that_is_there_twice_is_told_with_both_lines() -> None:
    documents, _ = read_yaml("a:\n  b: 1\n  c: 2\n  b: 3\n")
    (fault,) = documents[0].faults
    assert (fault.path, fault.place.line) == (("a", "b"), 4)
    assert "line 2" in fault.message
    assert documents[0].value == {"a": {"b": 3, "c": 2}}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2023-08-03", "2023-08-03"),
        ("1:30", "1:30"),
        ("yes", True),
        ("'yes'", "yes"),
        ("1e3", 1000.0),
        ("0777", 511),
        ("0x1F", 31),
        ("1_000", 1000),
        ("", None),
        ("089", 89.0),
        ("0b_", "0b_"),
        ("9" * 200, "9" * 200),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("100%", "100%"),
    ],
)
def test_a_word_means_what_it_means_to_kubectl(written: str, value: object) -> None:
    assert only(f"a: {written}") == {"a": value}


def test_keys_are_text() -> None:
    assert only("1: a\ntrue: b\n") == {"1": "a", "true": "b"}


def test_aliases_and_merges_stand_for_their_values() -> None:
    assert only("a: &x {b: 1, c: 2}\nd: *x\ne:\n  <<: *x\n  c: 3\n") == {
        "a": {"b": 1, "c": 2},
        "d": {"b": 1, "c": 2},
        "e": {"c": 3, "b": 1},
    }


@pytest.mark.parametrize("text", ["a: *x\n", "a: &x [*x]\n"])
def test_an_alias_of_nothing_or_of_itself_is_a_fault(text: str) -> None:
    documents, _ = read_yaml(text)
    assert "the alias *x has no anchor &x above it" in documents[0].faults[0].message


def test_a_template_that_was_not_rendered_is_recognised() -> None:
    _, broken = read_yaml("a: {{ .Values.name }}\n")
    assert broken is not None
    assert "render the template first" in broken.message


def test_an_unknown_tag_is_a_fault() -> None:
    documents, _ = read_yaml("a: !Ref b\nc: !Sub [d]\n")
    assert [fault.path for fault in documents[0].faults] == [("a",), ("c",)]


def test_a_control_character_is_told_with_its_place() -> None:
    _, broken = read_yaml('a: "한국어"\nb: \x01\n')
    assert broken is not None
    assert broken.place == Place(2, 4)


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        laughs(30),
        "[" * 1_000_000,
        "{a: " * 100_000,
        "- " * 1_000_000,
        "? " * 1_000_000,
        f"a: &a {'[' * 90}{']' * 90}\nb: &b {'[' * 90}*a{']' * 90}\n",
    ],
    ids=["laughs", "lists", "objects", "items", "keys", "nested aliases"],
)
@pytest.mark.timeout(30)
def test_what_would_cost_too_much_is_refused_at_once(text: str) -> None:
    """Reading any of these to its end would take hours."""
    _, broken = read_yaml(text)
    assert broken is not None


def test_usual_depth_is_read() -> None:
    assert only("[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT) is not None


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))
    | st.sampled_from(
        ["y", "No", "1e3", "0o7", "1:30", "~", "", "0777", ".5", "a\nb", "a\n", " x"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abyn01~", max_size=4), inner)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["apiVersion", "spec", "y"]), json_like))
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    assert only(yaml_text(document)) == document


@given(st.dictionaries(st.sampled_from(["a", "b"]), json_like))
def test_json_is_read(document: dict[str, Any]) -> None:
    assert only(json.dumps(document, ensure_ascii=False)) == document


@given(st.text(st.sampled_from("ab:-{}[]&*!|>'\"#%@,?\n \t~"), max_size=60))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    documents, _ = read_yaml(text)
    for document in documents:
        json.dumps(document.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10.0", 10), ("1e1", 10), ("1E3", 1000), ("-0.0", 0), ("1.5e1", 15), ("1e20", 10**20),
        ("1e21", 1e21), ("1.5", 1.5), ("1e-1", 0.1),
    ],
)  # fmt: skip
def test_whole_numbers_are_whole_as_kubectl_sends_them(text: str, value: float) -> None:
    """A weight of 10.0 is one of 10: Go writes both as 10."""
    for written in (f"a: {text}", f'{{"a": {text}}}'):
        read = only(written)["a"]
        assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"a": 1}\n{"b": {"c": 2}}\n', [Place(1, 2), Place(2, 8)]),
        ('{\n "a": 1\n}\n{\n "b": {\n  "c": 2}}', [Place(2, 2), Place(6, 3)]),
        ('{"a": 1} {"b": {"c": 2}}', [Place(1, 2), Place(1, 17)]),
    ],
)
def test_json_objects_may_follow_each_other(text: str, places: list[Place]) -> None:
    """As jq prints them, and as kubectl reads them."""
    (first, second), broken = read_yaml(text)
    assert broken is None
    assert (first.value, second.value) == ({"a": 1}, {"b": {"c": 2}})
    assert [first.place_of(("a",)), second.place_of(("b", "c"))] == places


def test_what_is_wrong_with_one_of_several_objects_has_its_line() -> None:
    (_, second), broken = read_yaml('{"a": 1}\n{"b": 1,\n "b": 2}\n')
    assert broken is None
    assert [fault.place for fault in second.faults] == [Place(3, 2)]


@pytest.mark.parametrize(
    "text", ['{"a": 1}\n{"b": ', '{"a": 1}\n[]', '{"a": 1}\nb: 1', "{a: 1}\n{b: 1}"]
)
def test_other_text_behind_an_object_is_a_fault(text: str) -> None:
    assert read_yaml(text)[1] is not None


@pytest.mark.parametrize(
    ("text", "correction"),
    [
        ("a: [${names}]\n", "render the template first, if this is one"),
        ("a:\n  - {{ .Values.name }}: 1\n  {{- end }}\n", "render the template first, if this is one"),
        ("a: [b, c\nd: e\n", "close the list, or put its values in quotes"),
        ("a: {b: c\nd: e\n", "close the braces, or put the values in quotes"),
    ],
)  # fmt: skip
def test_a_template_is_no_yaml_until_it_is_rendered(text: str, correction: str) -> None:
    fault = read_yaml(text)[1]
    assert fault is not None
    assert fault.message.endswith(correction)
