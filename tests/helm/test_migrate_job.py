"""The migrate job does what the values say of the store, by its own command and environment."""

import re

import pytest
from typer.testing import CliRunner

from audit.cli import app
from tests.worlds.charts import CHARTS, Helm, containers_of, pod_of

MADE = re.compile(r"^(?:CREATE|ALTER) .*?(?:TABLE|VIEW)(?: IF NOT EXISTS)? \w+(.*)", re.MULTILINE)


@pytest.mark.parametrize(("values", "where"), [("production", " ON CLUSTER `audit`"), ("minimal", "")])
def test_the_migrate_job_makes_everything_on_the_cluster_that_the_values_name(
    helm: Helm, values: str, where: str
) -> None:
    objects = helm.render("licet", "-f", str(CHARTS / f"licet/ci/{values}-values.yaml"))
    pods = [pod for one in objects if (pod := pod_of(one)) is not None]
    containers = [container for pod in pods for container in containers_of(pod)]
    (job,) = (one for one in containers if one["command"][:3] == ["licet", "audit", "migrate"])
    told = {entry["name"]: entry["value"] for entry in job["env"] if "value" in entry}
    sql = CliRunner().invoke(app, [*job["command"][2:], "--print"], env=told).stdout
    made = MADE.findall(sql)
    assert len(made) > 20
    assert all(rest.startswith(where) for rest in made), made
    assert ("ON CLUSTER" in sql, "ReplicatedMergeTree" in sql) == (bool(where), bool(where))
