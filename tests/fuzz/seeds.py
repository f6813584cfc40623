"""Where the fuzz targets begin: the requests of the vectors."""

import json
from pathlib import Path

VECTORS = Path(__file__).parents[1] / "vectors"
PROTOS = VECTORS / "protos"
LONGEST_SEED = 4096


def requests_of(folder: str) -> list[bytes]:
    """Return the requests of a folder of vectors, the very long ones left out."""
    vectors = [json.loads(path.read_text()) for path in sorted((VECTORS / folder).glob("*.json"))]
    found = (b"".join(bytes.fromhex(part["hex"]) * part["times"] for part in v["request"]) for v in vectors)
    return [request for request in found if len(request) <= LONGEST_SEED]


def schema_of(folder: str) -> str:
    """Return the one schema that the vectors of a folder share."""
    (schema,) = {
        json.dumps(json.loads(path.read_text())["schema"]) for path in (VECTORS / folder).glob("*.json")
    }
    return schema
