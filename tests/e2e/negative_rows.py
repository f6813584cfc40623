"""Which negative tests of docs/protocol.md the demo's cases are, by the case's name."""

from collections.abc import Mapping

ROWS: Mapping[str, tuple[int, ...]] = {
    "ignored_without_permit": (1,),
    "ignored_with_signed_denial": (3,),
    "amount_that_merges": (16,),
    "unknown_field_at_top": (17,),
    "unknown_field_nested": (17,),
    "unknown_field_in_a_map": (17,),
    "two_replicas_at_once": (22,),
    "empty_disks": (23,),
    "nats_stopped": (30,),
    "restored_checkpoint": (32,),
    "lost_reply": (32,),
    "parallel_branch": (32,),
    "bundle_superseded": (34,),
}
