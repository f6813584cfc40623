"""No signed bytes make reading a catalog raise; every method that is read keeps what its tier demands.

The first byte chooses what the rest is: a whole catalog, one method, a mutation of a lawful one, a template.
"""

from licet.call import CatalogError
from licet.catalog import Catalog, Method, read_catalog, read_method, read_template
from licet.dsse import PayloadType
from licet.refusal import Refusal
from licet.strict import canonical
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, KEYS, NOW, REFUND

INSTRUMENT = ["licet.catalog", "licet.strict", "licet.identity"]

ENTRY = canonical(world.method(REFUND))


def mutated(payload: bytes, data: bytes) -> bytes:
    """`payload` with pairs of `data` written into it: a place and a byte."""
    out = bytearray(payload)
    for place, value in zip(data[::2], data[1::2], strict=False):
        out[place * len(out) // 256] = value
    return bytes(out)


def check_catalog(payload: bytes) -> None:
    signed = world.signing_key("catalog").sign(PayloadType.CATALOG, payload)
    result = read_catalog(signed, KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(result, Catalog | Refusal)
    if isinstance(result, Catalog):
        assert all(versions.current.path == path for path, versions in result.methods.items())


def check_method(entry: bytes) -> None:
    try:
        method = read_method(REFUND, entry)
    except CatalogError:
        return
    assert isinstance(method, Method)
    assert method.spends or method.tier <= 1
    assert method.guarded or method.unguarded or method.tier < 4


def check_template(text: str) -> None:
    try:
        template = read_template(text)
        template.check_resource()
    except ValueError:
        return
    values = tuple("a:%" for _ in template.paths)
    others = tuple("a%3A:" for _ in template.paths)
    assert (template.identify(values) == template.identify(others)) is (not values)


def seeds() -> list[bytes]:
    return [
        b"\0" + canonical(world.catalog_message()),
        *(b"\1" + canonical(world.method(path)) for path in world.BODIES),
        *(b"\3" + text for text in (b"order:{a}:{b.c}", b"{a}{b}", b"{", b"x")),
    ]


def check(data: bytes) -> None:
    if not data:
        return
    kind, rest = data[0] % 4, data[1:]
    if kind == 0:
        check_catalog(rest)
    elif kind == 1:
        check_method(rest)
    elif kind == 2:
        check_method(mutated(ENTRY, rest))
    else:
        check_template(rest.decode(errors="replace"))
