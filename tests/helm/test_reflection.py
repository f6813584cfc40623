"""Reflection in the chart: off, unless a value says otherwise."""

from tests.worlds.charts import CHARTS, Helm


def test_a_door_shows_its_services_only_where_somebody_said_so(helm: Helm) -> None:
    given = ("refund-example", "-f", str(CHARTS / "refund-example/ci/minimal-values.yaml"))
    told = [
        [
            entry["value"]
            for one in helm.render(*given, *more)
            for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("initContainers", ())
            for entry in container.get("env", ())
            if entry["name"] == "LICET_REFLECTION"
        ]
        for more in ((), ("--set", "licet-sidecar.reflection=true"))
    ]
    assert told == [[], ["true"]]
