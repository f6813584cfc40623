"""Every interleaving of one step: two replicas of the sidecar, the spend store, the tool, the reconciler.

An explicit-state search of a small model. It is a test of the design, not of the code: which combinations of
store, guard and reconciler keep one step to one effect, and which famous shortcuts do not. The broken ones
must be found broken, or the model proves nothing. What the real guard does is tried in
tests/property/test_guard_machine.py.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import pytest


class Phase(StrEnum):
    """Where a replica stands with its permit."""

    IDLE = "idle"
    ASKED = "asked"  # the reserve was sent, its ack did not come
    RESERVED = "reserved"
    SENT = "sent"
    ENDED = "ended"
    REFUSED = "refused"
    CRASHED = "crashed"


class Fault(StrEnum):
    """What a variant may get wrong."""

    DOUBLE_EFFECT = "the step had two effects"
    FALSE_VERDICT = "a round called not executed had an effect"
    EFFECT_WITHOUT_RESERVE = "an effect that no reserve came before"
    STUCK = "a reserve whose outcome can never be known"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to build it. `store`: none, local, shared. `restart`: stays down, presents again, redrives its
    reserve.

    `msg_id`: of the reserve: random (nobody else knows it), step (the same from every replica), known
    (random, but an attacker read it). `first_duplicate`: what a replica makes of an ack that calls its first
    try a duplicate.
    """

    store: str = "shared"
    restart: str = "down"
    guard: bool = False
    store_forgets: bool = False
    reconciler: str = "none"
    rounds: int = 1
    exec_unique: str = "step"
    msg_id: str = "random"
    first_duplicate: str = "refused"
    acks_get_lost: bool = False


@dataclass(frozen=True, slots=True)
class Replica:
    """One sidecar with a permit for the step."""

    phase: Phase = Phase.IDLE
    round: int = 0
    remembers: bool = False
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """One state. Tuples are by round, but for `replicas`. `stored`: who holds the reserve, or -1."""

    replicas: tuple[Replica, Replica]
    stored: tuple[int, ...]
    reserved_once: tuple[bool, ...]
    effects: tuple[int, ...]
    void: tuple[bool, ...]
    executed: tuple[bool | None, ...]  # the reconciler's verdict
    in_flight: tuple[tuple[int, int], ...] = ()  # replica, round
    burnt: bool = False  # an attacker used the Msg-Id before
    forgot: bool = False

    def with_replica(self, number: int, new: Replica) -> "World":
        pair = list(self.replicas)
        pair[number] = new
        return replace(self, replicas=(pair[0], pair[1]))


def at(values: tuple, index: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:index], value, *values[index + 1 :])


def start(variant: Variant) -> World:
    rounds = variant.rounds
    return World(
        (Replica(), Replica()),
        stored=(-1,) * rounds,
        reserved_once=(False,) * rounds,
        effects=(0,) * rounds,
        void=(False,) * rounds,
        executed=(None,) * rounds,
    )


def steps(world: World, variant: Variant) -> Iterator[World]:
    """Yield every state that one action of one party leads to."""
    for number in (0, 1):
        yield from sidecar_steps(world, variant, number)
    yield from tool_steps(world, variant)
    if variant.store_forgets and not world.forgot:  # an acked write is lost, once
        for round_, holder in enumerate(world.stored):
            if holder >= 0:
                yield replace(world, stored=at(world.stored, round_, -1), forgot=True)
    if variant.msg_id == "known" and not world.burnt:
        yield replace(world, burnt=True)
    if variant.reconciler != "none":
        yield from reconciler_steps(world, variant)


def sidecar_steps(world: World, variant: Variant, number: int) -> Iterator[World]:
    me = world.replicas[number]
    if me.phase in {Phase.IDLE, Phase.ASKED}:
        yield from reserve_steps(world, variant, number)
    if me.phase is Phase.RESERVED:
        in_flight = tuple(sorted((*world.in_flight, (number, me.round))))
        yield replace(world, in_flight=in_flight).with_replica(number, replace(me, phase=Phase.SENT))
    if me.phase is Phase.SENT:
        yield world.with_replica(number, replace(me, phase=Phase.ENDED))
    if me.phase in {Phase.IDLE, Phase.ASKED, Phase.RESERVED, Phase.SENT}:
        yield world.with_replica(number, replace(me, phase=Phase.CRASHED, remembers=False))
    if me.phase is Phase.CRASHED and not me.restarted:
        if variant.restart == "presents":
            yield world.with_replica(number, replace(me, phase=Phase.IDLE, restarted=True))
        if variant.restart == "redrives" and world.stored[me.round] == number:
            yield world.with_replica(number, replace(me, phase=Phase.RESERVED, restarted=True))
    over = me.phase in {Phase.ENDED, Phase.REFUSED, Phase.CRASHED}
    if over and me.round + 1 < variant.rounds and world.executed[me.round] is False:
        yield world.with_replica(number, replace(me, phase=Phase.IDLE, round=me.round + 1))


def reserve_steps(world: World, variant: Variant, number: int) -> Iterator[World]:
    me = world.replicas[number]
    reserved, refused = replace(me, phase=Phase.RESERVED), replace(me, phase=Phase.REFUSED)
    if variant.store == "none":
        yield world.with_replica(number, reserved)
    elif variant.store == "local":
        yield world.with_replica(number, refused if me.remembers else replace(reserved, remembers=True))
    elif is_duplicate(world, variant, number):
        believed = me.phase is Phase.ASKED or variant.first_duplicate == "believed"
        yield world.with_replica(number, reserved if believed else refused)
        if variant.acks_get_lost:
            yield world.with_replica(number, replace(me, phase=Phase.ASKED))
    elif world.stored[me.round] >= 0:
        yield world.with_replica(number, refused)
    else:
        stored = replace(
            world,
            stored=at(world.stored, me.round, number),
            reserved_once=at(world.reserved_once, me.round, True),
        )
        yield stored.with_replica(number, reserved)
        if variant.acks_get_lost:
            yield stored.with_replica(number, replace(me, phase=Phase.ASKED))


def is_duplicate(world: World, variant: Variant, number: int) -> bool:
    """Whether the store has seen the Msg-Id: it then acks and stores nothing."""
    me = world.replicas[number]
    holder = world.stored[me.round]
    if variant.msg_id == "step":
        return holder >= 0
    if variant.msg_id == "known" and world.burnt and number == 0:
        return True
    return me.phase is Phase.ASKED and holder == number


def tool_steps(world: World, variant: Variant) -> Iterator[World]:
    for index, (_, round_) in enumerate(world.in_flight):
        rest = replace(world, in_flight=world.in_flight[:index] + world.in_flight[index + 1 :])
        yield rest  # lost on the way
        done_before = any(world.effects) if variant.exec_unique == "step" else world.effects[round_] > 0
        if not variant.guard or not (done_before or world.void[round_]):
            yield replace(rest, effects=at(world.effects, round_, world.effects[round_] + 1))


def reconciler_steps(world: World, variant: Variant) -> Iterator[World]:
    for round_ in range(variant.rounds):
        if not world.reserved_once[round_] or world.executed[round_] is not None:
            continue
        executed = any(world.effects) if variant.reconciler == "fences" else world.effects[round_] > 0
        void = world.void if executed or variant.reconciler == "reads" else at(world.void, round_, True)
        yield replace(world, void=void, executed=at(world.executed, round_, executed))


def faults(variant: Variant) -> set[Fault]:
    """Return what can go wrong in some reachable state."""
    first = start(variant)
    before: dict[World, list[World]] = {first: []}
    queue, found = deque([first]), set[Fault]()
    while queue:
        world = queue.popleft()
        found |= set(wrong(world, variant))
        for after in steps(world, variant):
            if after not in before:
                before[after] = []
                queue.append(after)
            before[after].append(world)
    if variant.reconciler == "fences" and stuck(before):
        found.add(Fault.STUCK)
    return found


def wrong(world: World, variant: Variant) -> Iterator[Fault]:
    if sum(world.effects) > 1:
        yield Fault.DOUBLE_EFFECT
    for round_, verdict in enumerate(world.executed):
        if verdict is False and world.effects[round_]:
            yield Fault.FALSE_VERDICT
        if world.effects[round_] and variant.store == "shared" and not world.reserved_once[round_]:
            yield Fault.EFFECT_WITHOUT_RESERVE


def stuck(before: dict[World, list[World]]) -> bool:
    """Whether some state can never again come to where every reserve that was made has its verdict."""
    queue = deque(
        world
        for world in before
        if all(
            verdict is not None or not reserved
            for verdict, reserved in zip(world.executed, world.reserved_once, strict=True)
        )
    )
    recoverable = set(queue)
    while queue:
        for earlier in before[queue.popleft()]:
            if earlier not in recoverable:
                recoverable.add(earlier)
                queue.append(earlier)
    return len(recoverable) < len(before)


DOUBLE, FALSE = Fault.DOUBLE_EFFECT, Fault.FALSE_VERDICT
GUARDED = Variant(restart="redrives", guard=True, store_forgets=True)
ROUNDS = replace(GUARDED, rounds=2, reconciler="fences")
READS = Variant(restart="presents", guard=True, rounds=2, reconciler="reads")
VARIANTS: dict[str, tuple[Variant, set[Fault]]] = {
    "A: each replica remembers for itself": (Variant(store="local"), {DOUBLE}),
    "B: and is presented the permit again after a crash": (
        Variant(store="local", restart="presents"),
        {DOUBLE},
    ),
    "C: a shared write-once reserve": (Variant(), set()),
    "D: presented again after a crash": (Variant(restart="presents"), set()),
    "E: a restarted sidecar redrives its own reserve": (Variant(restart="redrives"), {DOUBLE}),
    "F: the store forgets one acked write": (Variant(restart="presents", store_forgets=True), {DOUBLE}),
    "G: a guard row, whatever store and sidecar do": (GUARDED, set()),
    "H: a guard row and no store at all": (Variant(store="none", guard=True, restart="presents"), set()),
    "I: a reconciler that only reads the ledger": (Variant(reconciler="reads"), {FALSE}),
    "J: the same beside a guard": (replace(GUARDED, reconciler="reads"), {FALSE}),
    "K: a reconciler that fences": (replace(GUARDED, reconciler="fences"), set()),
    "L: rounds behind a fence": (ROUNDS, set()),
    "M: rounds behind a reconciler that only reads": (READS, {FALSE}),
    "N: and one EXEC for each round instead of each step": (
        replace(READS, exec_unique="round"),
        {DOUBLE, FALSE},
    ),
    "O: rounds without a guard": (replace(ROUNDS, guard=False, restart="down"), {DOUBLE, FALSE}),
    "P: the step as Msg-Id, acks believed": (Variant(msg_id="step", first_duplicate="believed"), {DOUBLE}),
    "Q: a Msg-Id that others know, acks believed": (
        Variant(msg_id="known", first_duplicate="believed"),
        {DOUBLE, Fault.EFFECT_WITHOUT_RESERVE},
    ),
    "R: the same, a duplicate on the first try refused": (Variant(msg_id="known"), set()),
    "S: and the first ack may be lost": (
        Variant(msg_id="known", acks_get_lost=True),
        {DOUBLE, Fault.EFFECT_WITHOUT_RESERVE},
    ),
    "T: a Msg-Id that nobody knows, acks may be lost": (Variant(acks_get_lost=True), set()),
    "U: everything that we build": (replace(ROUNDS, restart="presents", acks_get_lost=True), set()),
}


@pytest.mark.parametrize(("variant", "expected"), VARIANTS.values(), ids=VARIANTS.keys())
def test_the_model_finds_exactly_what_is_wrong_with(variant: Variant, expected: set[Fault]) -> None:
    assert faults(variant) == expected
