"""What every source of relations must do: the file, and the one in memory that stands for a service."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from decider.relations.file import FileRelations
from decider.relations.relation import Relations, RelationsUnavailable

Told = tuple[str, str, str]
"""Who is what to which resource."""
ANA, BEN = "ana@t1.example.com", "ben@t1.example.com"
TOLD: tuple[Told, ...] = (
    (ANA, "manager", "supplier:S1"),
    (ANA, "buyer", "supplier:S1"),
    (BEN, "buyer", "supplier:S1"),
    (BEN, "manager", "supplier:S2"),
)


class Service:
    """Keeps relations in memory, and can be away."""

    def __init__(self) -> None:
        self.told: frozenset[Told] | None = frozenset()

    async def between(self, principal: str, resource: str) -> frozenset[str]:
        if self.told is None:
            raise RelationsUnavailable("the service is away")
        return frozenset(what for who, what, which in self.told if (who, which) == (principal, resource))


class Kept:
    """A source, and how to say what it knows; None: it is away."""

    def __init__(self, source: Relations, say: Callable[[Iterable[Told] | None], None]) -> None:
        self.source, self.say = source, say

    def between(self, principal: str, resource: str) -> frozenset[str]:
        return asyncio.run(self.source.between(principal, resource))


def file_source(tmp_path: Path) -> Kept:
    path = tmp_path / "relations.yaml"

    def say(told: Iterable[Told] | None) -> None:
        if told is None:
            path.unlink(missing_ok=True)
            return
        known: dict[str, dict[str, list[str]]] = {}
        for who, what, which in told:
            known.setdefault(which, {}).setdefault(what, []).append(who)
        lines = ["relations:" if known else "relations: {}"]
        for which, named in known.items():
            lines.append(f'  "{which}":')
            lines += [f"    {what}: {json.dumps(who)}" for what, who in named.items()]
        fresh = path.with_name("fresh")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(path)

    return Kept(FileRelations(path), say)


def service_source(_: Path) -> Kept:
    service = Service()

    def say(told: Iterable[Told] | None) -> None:
        service.told = None if told is None else frozenset(told)

    return Kept(service, say)


@pytest.fixture(params=[file_source, service_source], ids=["file", "service"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    made: Kept = request.param(tmp_path)
    return made


def test_every_relation_of_a_person_to_a_resource_and_no_other(kept: Kept) -> None:
    kept.say(TOLD)
    assert kept.between(ANA, "supplier:S1") == {"manager", "buyer"}
    assert kept.between(BEN, "supplier:S1") == {"buyer"}
    assert kept.between(ANA, "supplier:S2") == frozenset()
    assert kept.between("ana", "supplier:S1") == frozenset()
    assert kept.between(ANA, "supplier:S") == frozenset()


def test_relation_that_ended_is_not_told_any_more(kept: Kept) -> None:
    kept.say(TOLD)
    assert "manager" in kept.between(ANA, "supplier:S1")
    kept.say(TOLD[1:])
    assert kept.between(ANA, "supplier:S1") == {"buyer"}
    kept.say(())
    assert kept.between(ANA, "supplier:S1") == frozenset()


def test_source_that_is_away_raises_and_never_says_none(kept: Kept) -> None:
    kept.say(TOLD)
    assert kept.between(ANA, "supplier:S1")
    kept.say(None)
    with pytest.raises(RelationsUnavailable):
        kept.between(ANA, "supplier:S1")
    kept.say(TOLD)
    assert kept.between(ANA, "supplier:S1")


BAD = (
    "",
    "relations:\n  a: b\n",
    "relations: [",
    "relations:\n  a: {b: [1]}\n",
    "relation: {}\n",
    "relations: {}\nx: 1\n",
)


@pytest.mark.parametrize("text", BAD)
def test_file_with_a_fault_knows_nothing_not_even_what_it_knew(tmp_path: Path, text: str) -> None:
    kept = file_source(tmp_path)
    kept.say(TOLD)
    assert kept.between(ANA, "supplier:S1")
    (tmp_path / "relations.yaml").write_text(text)
    for _ in range(2):
        with pytest.raises(RelationsUnavailable, match=r"relations\.yaml"):
            kept.between(ANA, "supplier:S1")
