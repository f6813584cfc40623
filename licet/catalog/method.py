"""A tool's method as its owner describes it: what decider and door go by, never what a caller says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from licet.call import Arguments, EnumNumber, Plan, Schema, read_json, walk
from licet.catalog.argument import ArgumentRule
from licet.catalog.money import Money, spell_amount
from licet.catalog.template import Template
from licet.hold import Quota
from licet.refusal import Refusal
from licet.tier import CallClass

MASK = "•••"
"""What stands for a sensitive value."""

OWNER_ROLE = "tool-owner"
"""The role of a tool's owner where its catalog names no other."""

ABSENT = "(none)"
"""What stands for a value that is not there."""

MAX_SHOWN_CHARACTERS = 128
"""How much of one value a summary shows."""


def method_digest(entry: bytes) -> bytes:
    """Return the SHA-256 of a serialised licet.v1.Method: the version of the method, descriptors and all."""
    return sha256(entry).digest()


@dataclass(frozen=True, slots=True)
class Facts:
    """Where current state comes from: a read method of the same tool.

    `request` maps a field of that method's request to an argument path of the call; `tenant` is a path in its
    answer; `preconditions` maps a check of the guard to a path in its answer.
    """

    method: str
    request: Mapping[str, str]
    tenant: str
    preconditions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Method:
    """One version of a method, as the signed catalog has it; fields as proto/licet/v1/catalog.proto says.

    `spends` is the door's word: always true for writes and privileged calls, whatever a permit says.
    """

    path: str
    digest: bytes
    codec: int
    tier: int
    call_class: CallClass
    operation: str
    plan: Plan | Schema
    output: Plan | None
    resource: Template
    say: Template
    spends: bool
    money: Money | None = None
    facts: Facts | None = None
    tenant_path: str = ""
    sensitive: frozenset[str] = frozenset()
    guarded: bool = False
    unguarded: str = ""
    no_effect_codes: frozenset[int] = frozenset()
    obligations: frozenset[str] = frozenset()
    ceilings: bool = False
    decide_on_call: bool = False
    approvers: tuple[Quota, ...] = ()
    server_streaming: bool = False
    client_streaming: bool = False
    resource_personal: bool = False
    model_facing_sha256: bytes = b""
    argument_rules: tuple[ArgumentRule, ...] = ()
    data_classes: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    environments: frozenset[str] = frozenset()
    costs: Mapping[str, str] = field(default_factory=dict)
    polls: bool = False
    input_type: str = ""
    output_type: str = ""
    descriptors: bytes = field(default=b"", repr=False)
    json_schema: str = field(default="", repr=False)

    def arguments(self, body: bytes) -> Arguments | Refusal:
        """Return the arguments in `body`, strictly read with this version's own descriptors or schema."""
        return walk(self.plan, body) if isinstance(self.plan, Plan) else read_json(self.plan, body)

    def resource_of(self, arguments: Arguments) -> str | Refusal:
        """Return the id of the resource that these arguments name, else ARGUMENTS_MALFORMED."""
        values = []
        for path in self.resource.paths:
            value = arguments.identifier(path)
            if isinstance(value, Refusal):
                return value
            values.append(value)
        return self.resource.identify(tuple(values))

    def money_of(self, arguments: Arguments) -> tuple[int, str] | None:
        """Return amount in minor units and currency; None where the method moves none or one is absent."""
        if self.money is None:
            return None
        amount, currency = arguments.leaf(self.money.amount), arguments.leaf(self.money.currency)
        if not isinstance(amount, int) or not isinstance(currency, str):
            return None
        return amount, currency

    def costs_of(self, arguments: Arguments) -> dict[str, int] | None:
        """Return what a call costs beside money, by name; None where an argument that says so is missing."""
        costs: dict[str, int] = {}
        for name, spelled in self.costs.items():
            value = int(spelled) if spelled.isdecimal() else arguments.leaf(spelled)
            if isinstance(value, bool) or not isinstance(value, int):
                return None
            costs[name] = value
        return costs

    def tenant_of(self, arguments: Arguments) -> str | Refusal | None:
        """Return the tenant that the arguments name, or None where only facts know it."""
        return arguments.identifier(self.tenant_path) if self.tenant_path else None

    def summary(self, arguments: Arguments, *, hidden: frozenset[str] = frozenset()) -> str:
        """Return the owner's plain text about this call, sensitive values and those at `hidden` masked.

        Fit for one line that people read. `{amount}`, where no argument has that name, is the method's
        money in major units.
        """
        money = self.money_of(arguments)
        return self.say.render(
            tuple(MASK if path in hidden else self._shown(path, arguments, money) for path in self.say.paths)
        )

    def recorded_summary(self, arguments: Arguments) -> str:
        """Return the summary as a record may have it: without the resource where that is personal."""
        return self.summary(arguments, hidden=self.personal_paths)

    @property
    def personal_paths(self) -> frozenset[str]:
        """The argument paths that make a personal resource; none where it is not personal."""
        return frozenset(self.resource.paths) if self.resource_personal else frozenset()

    def _shown(self, path: str, arguments: Arguments, money: tuple[int, str] | None) -> str:
        masked = self.money.amount if self.money is not None and path == "amount" else path
        if masked in self.sensitive or path in self.sensitive:
            return MASK
        value = arguments.leaf(path)
        if value is None and path == "amount" and money is not None:
            return spell_amount(*money)
        if value is None:
            return ABSENT
        if isinstance(value, EnumNumber):
            return value.name
        if isinstance(value, bytes):
            return f"({len(value)} bytes)"
        return show(str(value))


def show(text: str) -> str:
    """Return `text` fit for one line that people read: printable, at most 128 characters."""
    shown = text
    if not text.isprintable():
        shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= MAX_SHOWN_CHARACTERS else shown[: MAX_SHOWN_CHARACTERS - 1] + "…"


@dataclass(frozen=True, slots=True)
class MethodVersions:
    """A method while a rollout lasts: the decider mints under `current`, the door takes either."""

    current: Method
    next: Method | None = None

    def all(self) -> tuple[Method, ...]:
        """Return every listed version, the current one first."""
        return (self.current,) if self.next is None else (self.current, self.next)

    def listed(self, digest: bytes) -> Method | None:
        """Return the version with this digest, or None."""
        for version in self.all():
            if version.digest == digest:
                return version
        return None


@dataclass(frozen=True, slots=True)
class Catalog:
    """A tool's methods by exact path, as the catalog key signed them."""

    tool: str
    environment: str
    audience: str
    version: int
    methods: Mapping[str, MethodVersions]
    owner_role: str = OWNER_ROLE
    """Whose people are asked when a method is served otherwise than it is listed."""

    def method(self, path: str) -> MethodVersions | None:
        """Return the method with exactly this path, or None: no other case, slash, query or encoding."""
        return self.methods.get(path)

    def listed(self, digest: bytes) -> Method | None:
        """Return the method version with this digest, or None."""
        for versions in self.methods.values():
            method = versions.listed(digest)
            if method is not None:
                return method
        return None
