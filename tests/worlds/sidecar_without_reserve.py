"""A broken sidecar: it forwards without a reserve. What the chaos run must notice.

The product has no such switch; this program takes the step out of the spend client before it starts one.
"""

import sys
from typing import Any

from licet.cli import main
from sidecar.parts import Reserved
from sidecar.store.spend import SpendClient


async def _no_reserve(_self: SpendClient, _permit: Any, **_: Any) -> Reserved:
    return Reserved(seq=1)


if __name__ == "__main__":
    SpendClient.reserve = _no_reserve  # type: ignore[method-assign] # that is the point
    sys.exit(main())
