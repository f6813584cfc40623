"""The three evidences behind a trace: what the audit store has of the steps that its spans name.

Guaranteed: spans only say which steps to ask for; everything shown comes from the store. Not guaranteed: a
step whose spans were dropped; `licet audit ask story` finds it by its ids.
"""

from collections.abc import Sequence
from typing import Any

from audit.asking.show import evidence_text
from audit.judging.evidence import NoEvidenceError, read
from licet import telemetry
from licet.clock import wall_us
from licet.embedded.trace_store import StoredSpan


def steps_of(spans: Sequence[StoredSpan]) -> tuple[tuple[str, str], ...]:
    """Return the steps that spans name, each as (spend id, decision id) with one of the two, in order.

    Reads have no spend, and reads that a decider makes for facts are part of another step: decisions count
    only where no span names a spend.
    """
    for key, spend in ((telemetry.SPEND_ID, True), (telemetry.DECISION_ID, False)):
        named = dict.fromkeys(str(span.attributes[key]) for span in spans if span.attributes.get(key))
        if named:
            return tuple((one, "") if spend else ("", one) for one in named)
    return ()


def evidence_of(spans: Sequence[StoredSpan], client: Any) -> str:
    """Return the evidences of every step that spans name, as `licet audit evidence` shows them.

    Raises what the store's client raises.
    """
    shown = []
    for spend_id, decision_id in steps_of(spans):
        try:
            found = read(client, now_us=wall_us(), spend_id=spend_id, decision_id=decision_id)
        except NoEvidenceError as error:
            shown.append(str(error))
        else:
            shown.append(evidence_text(found))
    return "\n\n".join(shown)
