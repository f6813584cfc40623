"""What a decider reads of its house at the start: catalogs and tasks; a fault is a ValueError."""

from collections.abc import Mapping
from types import MappingProxyType

from decider.catalog.served import Drift
from decider.decision.envelope import House
from decider.settings import DeciderSettings
from decider.task.tasks import read_tasks
from licet.catalog import Catalog, read_catalog
from licet.keyfile import read_signed
from licet.keys import KeySet
from licet.refusal import Refusal


def read_house(settings: DeciderSettings, keys: KeySet, *, now_ms: int) -> House:
    """Return the house without tool keys. Raises `SourceError`, `KeyFileError`, ValueError."""
    tasks = read_tasks(
        settings.tasks_file,
        trust_domain=settings.trust_domain,
        environment=settings.environment,
        now_ms=now_ms,
    )
    catalogs = MappingProxyType(_catalogs(settings, keys, now_ms))
    where = settings.trust_domain, settings.environment
    return House(*where, catalogs, MappingProxyType({}), tasks, Drift(settings.served))


def _catalogs(settings: DeciderSettings, keys: KeySet, now_ms: int) -> Mapping[str, Catalog]:
    catalogs: dict[str, Catalog] = {}
    for path in settings.catalogs:
        signed = read_signed(path)
        catalog = read_catalog(signed, keys, environment=settings.environment, now_ms=now_ms)
        if isinstance(catalog, Refusal):
            raise ValueError(f"catalog `{path}`: {catalog.reason}: {catalog.detail}")  # noqa: TRY004 - a refusal
        if catalog.audience in catalogs:
            raise ValueError(f"catalog `{path}`: tool `{catalog.tool}` is given twice")
        catalogs[catalog.audience] = catalog
    if not catalogs:
        raise ValueError("LICET_CATALOGS names no catalog: nothing could be decided")
    return catalogs
