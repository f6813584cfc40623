"""What lets more through is called wider: of every field, and of a field that nobody thought of."""

from typing import Any

import pytest
from typer.testing import CliRunner

from decider.catalog.cli import catalog_app
from decider.catalog.diff import Effect, differences
from licet.strict import canonical
from licet.v1 import bundle_pb2, catalog_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import REFUND, WIPE

RULES = [
    {"path": "amount.minor", "min": 1, "max": 50},
    {"path": "tags", "one_of": ["a", "b"], "max_items": 2},
]


def catalog(of: str = REFUND, **changes: Any) -> catalog_pb2.Catalog:
    """The catalog of the tests with one method changed."""
    return world.catalog_message(**{"refund" if of == REFUND else "wipe": world.method(of, **changes)})


def effects(old: catalog_pb2.Catalog, new: catalog_pb2.Catalog) -> dict[str, Effect]:
    return {one.field: one.effect for one in differences(old, new)}


PAIRS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("tier", WIPE, {}, {"tier": 4, "approvers": [], "unguarded": ""}),
    ("sensitive", REFUND, {}, {"sensitive": []}),
    ("guarded", REFUND, {}, {"guarded": False, "unguarded": "at_most_once"}),
    ("no_effect_codes", REFUND, {}, {"no_effect_codes": [3]}),
    ("obligations", REFUND, {}, {"obligations": ["mask_reply", "other"]}),
    ("ceilings", REFUND, {"ceilings": False}, {}),
    ("decide_on_call", REFUND, {}, {"decide_on_call": True}),
    ("approvers", WIPE, {}, {"approvers": [{"role": "lead", "quorum": 1}]}),
    ("resource_personal", REFUND, {"resource_personal": True}, {}),
    ("money", REFUND, {}, {"money": None}),
    ("facts", REFUND, {}, {"facts": None}),
    ("tenant_path", REFUND, {"tenant_path": "note"}, {}),
    ("polls", REFUND, {}, {"polls": True}),
    ("environments", REFUND, {"environments": ["prod"]}, {}),
    ("arguments", REFUND, {"arguments": RULES}, {}),
    ("arguments", REFUND, {"arguments": RULES}, {"arguments": [{**RULES[0], "max": 51}, RULES[1]]}),
    ("arguments", REFUND, {"arguments": RULES}, {"arguments": [{**RULES[0], "min": 0}, RULES[1]]}),
    (
        "arguments",
        REFUND,
        {"arguments": RULES},
        {"arguments": [RULES[0], {**RULES[1], "one_of": ["a", "b", "c"]}]},
    ),
    ("arguments", REFUND, {"arguments": RULES}, {"arguments": [RULES[0], {**RULES[1], "max_items": 0}]}),
]


@pytest.mark.parametrize(("field", "of", "strict", "loose"), PAIRS)
def test_loosened_field_widens_and_tightened_the_other_way_round_narrows(
    field: str, of: str, strict: dict[str, Any], loose: dict[str, Any]
) -> None:
    assert effects(catalog(of, **strict), catalog(of, **loose))[field] is Effect.WIDENS
    assert effects(catalog(of, **loose), catalog(of, **strict))[field] is Effect.NARROWS


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("operation", {"operation": "pay"}),
        ("resource", {"resource": "refund:{order_id}"}),
        ("descriptors", {"descriptors": b"\x0a\x00"}),
        ("data_classes", {"data_classes": ["personal"]}),
        ("results", {"results": ["money_out"]}),
        ("costs", {"costs": {"credits": "1"}}),
    ],
)
def test_change_that_cannot_be_judged_widens_either_way(field: str, changes: dict[str, Any]) -> None:
    assert effects(catalog(), catalog(**changes))[field] is Effect.WIDENS
    assert effects(catalog(**changes), catalog())[field] is Effect.WIDENS


def test_every_field_of_a_method_is_judged_or_widens() -> None:
    """A field that is added tomorrow widens until somebody says what it does."""
    for field in catalog_pb2.Method.DESCRIPTOR.fields:
        if field.name in {"path", "say", "model_facing_sha256"} or field.is_repeated or field.message_type:
            continue
        value: Any = {field.CPPTYPE_STRING: "x", field.CPPTYPE_BOOL: True}.get(field.cpp_type, 7)
        old, new = catalog_pb2.Method(), catalog_pb2.Method()
        setattr(new, field.name, value.encode() if field.type == field.TYPE_BYTES else value)
        entries = [
            [catalog_pb2.CatalogEntry(path="/a.B/C", current=one.SerializeToString())] for one in (old, new)
        ]
        both = [catalog_pb2.Catalog(entries=one) for one in entries]
        there, back = effects(*both)[field.name], effects(*reversed(both))[field.name]
        assert Effect.NEUTRAL not in {there, back}
        assert Effect.WIDENS in {there, back}


def test_listed_method_and_version_widen_and_dropped_ones_narrow() -> None:
    small, large = world.catalog_message(), world.catalog_message()
    del small.entries[1]
    assert effects(small, large) == {"method": Effect.WIDENS}
    assert effects(large, small) == {"method": Effect.NARROWS}
    rolling = world.catalog_message()
    rolling.entries[0].next = canonical(world.method(REFUND, say="Pay"))
    assert effects(large, rolling) == {"next": Effect.WIDENS}
    assert effects(rolling, large) == {"next": Effect.NARROWS}


def test_equal_catalogs_differ_in_nothing_and_a_new_number_is_neutral() -> None:
    newer = world.catalog_message()
    newer.catalog_version += 1
    assert differences(world.catalog_message(), world.catalog_message()) == ()
    assert effects(world.catalog_message(), newer) == {"catalog_version": Effect.NEUTRAL}
    assert effects(newer, world.catalog_message()) == {"catalog_version": Effect.WIDENS}
    assert effects(catalog(), catalog(say="Pay back {order_id}")) == {"say": Effect.NEUTRAL}


def test_command_ends_with_1_where_something_widens_and_says_it_first(tmp_path: Any) -> None:
    old, new = tmp_path / "old.catalog", tmp_path / "new.catalog"
    old.write_bytes(canonical(world.signed_catalog(catalog())))
    new.write_bytes(
        canonical(world.signed_catalog(catalog(say="Pay", guarded=False, unguarded="at_most_once")))
    )
    done = CliRunner().invoke(catalog_app, ["diff", str(old), str(new)])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == "widens   fin.v1.Finance/IssueRefund: guarded: true -> false"
    assert CliRunner().invoke(catalog_app, ["diff", str(old), str(old)]).exit_code == 0
    assert CliRunner().invoke(catalog_app, ["diff", str(old), str(old), "--json"]).stdout == "[]\n"
    bundle = tmp_path / "bundle"
    bundle.write_bytes(
        canonical(Signed(payload=canonical(bundle_pb2.Bundle(rules="x", stage=1)), key_id="k"))
    )
    other = CliRunner().invoke(catalog_app, ["diff", str(old), str(bundle)])
    assert (other.exit_code, other.stdout, "is no signed catalog" in other.stderr) == (1, "", True)
