"""How a walk ends early; never leaves licet.call, which turns it into a Refusal."""

from licet.refusal import Reason, Refusal


class Stop(Exception):  # noqa: N818 - no error: it carries a refusal out of a recursion
    """The walk of hostile arguments ends here."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.refusal = Refusal(reason, detail)
