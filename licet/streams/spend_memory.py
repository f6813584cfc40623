"""What a decider remembers of the spend stream, so that a stream that went back in time is noticed.

A sidecar sees only the acks of its own records: after a restore, those of another tool may lift the
numbering over the floor first. A decider reads the stream itself, before anybody spends on it again, and
stops everybody.

Guaranteed: `look` says False from the first look that finds fewer spends than an earlier one, or than the
log has copies of, until the generation grows. Not guaranteed: that a decider that starts together with a
restored stream and a restored log knows better; give it `remembered` from the audit store.
"""

from licet.streams.api import SpendPosition


class SpendMemory:
    """One environment's; `remembered` is the largest sequence known from elsewhere, 0 for none."""

    def __init__(self, remembered: int = 0) -> None:
        self._floor = remembered
        self._generation = 0
        self._rolled_back = False

    @property
    def floor(self) -> int:
        """The largest sequence ever seen in this generation; goes into the beacon as `spend_floor`."""
        return self._floor

    def look(self, position: SpendPosition, generation: int) -> bool:
        """Take a leader's answer under `generation`; return whether spending on this stream is safe."""
        if generation > self._generation:
            if self._generation:  # the operator's answer to a restore: numbers may begin lower
                self._floor, self._rolled_back = 0, False
            self._generation = generation
        known = max(self._floor, position.log_origin_seq)
        self._rolled_back = self._rolled_back or position.last_seq < known
        self._floor = max(known, position.last_seq)
        return not self._rolled_back
