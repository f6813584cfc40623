"""The dated waiver that stage shadow needs for calls that write: read, checked, and held against the time.

Guarantees: in no environment does shadow let a call go on that writes and that the rules would have stopped,
unless the signed bundle names an end that is not over, a month away at most when it came into force. What
environment is production stands nowhere, so no setting can be wrong about it.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from decider.source import Section
from licet.tier import CallClass
from licet.v1 import bundle_pb2

MAX_WAIVER_DAYS: Final = 30
DAY_MS: Final = 86_400_000
END_OF_TIME_MS: Final = (1 << 63) - 1
MAX_REASON_BYTES: Final = 300


@dataclass(frozen=True, slots=True)
class Waiver:
    """Until when shadow lets through calls that write, Unix ms, and who answers for it."""

    not_after_ms: int
    reason: str


def shadowed_until_ms(waiver: Waiver | None, call_class: CallClass, now_ms: int) -> int | None:
    """Return until when a stopped call of this class goes on in stage shadow, Unix ms; None: it is stopped.

    Reads go on as long as the stage is shadow, writes under a waiver that is not over; what is privileged
    never does, since the door demands its approvals whatever the stage.
    """
    if call_class is CallClass.READ:
        return END_OF_TIME_MS
    if call_class is CallClass.PRIVILEGED or waiver is None or now_ms >= waiver.not_after_ms:
        return None
    return waiver.not_after_ms


def read_waiver(top: Section, bundle: bundle_pb2.Bundle) -> None:
    """Read `waiver: {until: "2026-12-31", reason: …}` into `bundle`: it lasts to the end of that day, UTC."""
    section = top.section("waiver")
    if section is None:
        return
    if bundle.stage != bundle_pb2.ROLLOUT_STAGE_SHADOW:
        top.refuse("waiver", "only stage `shadow` has one")
    until, reason = section.text("until"), section.text("reason", max_length=MAX_REASON_BYTES)
    section.close()
    if not reason:
        section.refuse("reason", "say who answers for it, and why")
    try:
        day = date.fromisoformat(until)
    except ValueError:
        section.refuse("until", f"`{until}` is no date: write year-month-day")
        return
    end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    bundle.waiver.CopyFrom(bundle_pb2.ShadowWaiver(not_after_ms=int(end.timestamp()) * 1_000, reason=reason))


def load_waiver(bundle: bundle_pb2.Bundle) -> Waiver | str | None:
    """Return the waiver of a bundle, None where there is none, or what is wrong with it."""
    if not bundle.HasField("waiver"):
        return None
    waiver = bundle.waiver
    if bundle.stage != bundle_pb2.ROLLOUT_STAGE_SHADOW or waiver.not_after_ms <= 0 or not waiver.reason:
        return "a waiver needs stage shadow, an end and a reason"
    return Waiver(waiver.not_after_ms, waiver.reason)


def waiver_fault(bundle: bundle_pb2.Bundle, now_ms: int) -> str:
    """Return why a waiver may not come into force now, empty where it may, or where there is none."""
    if not bundle.HasField("waiver"):
        return ""
    left_ms = bundle.waiver.not_after_ms - now_ms
    if left_ms <= 0:
        return "its waiver for shadow is over: give it a later day, or `stage: enforce`"
    if left_ms > (MAX_WAIVER_DAYS + 1) * DAY_MS:
        return f"its waiver for shadow lasts longer than {MAX_WAIVER_DAYS} days"
    return ""


def shadow_warning(waiver: Waiver | None) -> str:
    """Return the sentence about a stage of shadow that a bundle's author must not overlook."""
    if waiver is None:
        return "stage `shadow` without a waiver: reads go on, calls that write are stopped as in `enforce`"
    day = datetime.fromtimestamp(waiver.not_after_ms / 1_000 - 1, UTC).date()
    return f"stage `shadow`: decisions are recorded and not enforced, on writes until {day}"
