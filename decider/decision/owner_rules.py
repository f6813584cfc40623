"""What the owner of a tool lets through: the catalog's argument rules, and what facts must know. Pure."""

from collections.abc import Iterator, Mapping

from decider.catalog.patterns import compile_pattern
from decider.decision.envelope import Envelope
from decider.decision.verdict import Facts
from licet.catalog.argument import check_arguments, check_visible
from licet.refusal import Refusal


def check_owner_rules(envelope: Envelope) -> Refusal | None:
    """Check the arguments against the catalog's rules, patterns included; ARGUMENT_REFUSED names which."""
    return check_arguments(envelope.method.argument_rules, envelope.arguments, compiled=compile_pattern)


def check_visibility(envelope: Envelope, facts: Facts) -> Refusal | None:
    """Check that values which facts must know are among them: an attachment that the resource has."""
    return check_visible(
        envelope.method.argument_rules,
        envelope.arguments,
        lambda path: frozenset(_named(facts.attributes, path)),
    )


def _named(value: object, path: str) -> Iterator[str]:
    """Yield the texts and integers at a path of the facts, through lists."""
    if isinstance(value, tuple):
        for item in value:
            yield from _named(item, path)
    elif path and isinstance(value, Mapping):
        name, _, rest = path.partition(".")
        if name in value:
            yield from _named(value[name], rest)
    elif not path and isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)
