"""Packs: each is sound by itself, and what is copied from one is as sound as it was."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from decider.catalog.tools import read_tools
from decider.cli import catalog_app, policy_app
from decider.loop.loops import History, Shape
from decider.packs import PackError, copy_pack, packs
from decider.policy.bundle import load_bundle, read_bundle_source
from decider.task.contract import check_contract
from examples.packs.demo.story import read_story
from licet.call import Arguments, compile_schema, read_json
from licet.embedded.cli import find_pack
from licet.embedded.project import ProjectError
from licet.refusal import Reason

PACKS = Path(__file__).parents[3] / "examples" / "packs"
NAMES = ("coding", "day-one", "finance", "sales-research", "support")
STORIES = tuple(name for name in NAMES if name != "day-one")
MINUTES, WORDS_A_MINUTE = 5, 200


def run(*words: str) -> str:
    app = catalog_app if words[0] == "catalog" else policy_app
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_pack_is_found() -> None:
    assert tuple(sorted(packs())) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_policy_of_a_pack_lints_and_passes_its_tests(name: str) -> None:
    policy = str(packs()[name])
    assert run("policy", "lint", policy) == f"{policy}: nothing to object to\n"  # silence told nobody
    assert "MISS" not in run("policy", "test", policy)


@pytest.mark.parametrize("name", STORIES)
def test_catalog_of_a_pack_has_no_error(name: str) -> None:
    run("catalog", "lint", str(packs()[name]))


@pytest.mark.parametrize("name", STORIES)
def test_story_has_three_lawful_three_stopped_one_held_and_fits_its_tool(name: str) -> None:
    story = read_story(PACKS / name)
    assert (len(story.lawful), len(story.stopped), len(story.held)) == (3, 3, 1)
    assert story.held[0].approver in (PACKS / name / "licet.yaml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_readme_and_rules_are_read_in_five_minutes(name: str) -> None:
    texts = [PACKS / name / "README.md", PACKS / name / "policy/rules.cedar"]
    words = sum(len(re.findall(r"\w+", path.read_text())) for path in texts)
    assert words <= MINUTES * WORDS_A_MINUTE


@pytest.mark.parametrize("name", STORIES)
def test_templates_of_a_pack_speak_of_operations_and_roles_that_it_has(name: str) -> None:
    bundle = load_bundle(read_bundle_source(packs()[name], environment="dev"))
    tools = read_tools(packs()[name] / "tools.yaml")
    operations = {method.operation for method in tools.methods}
    rules = (packs()[name] / "rules.cedar").read_text()
    assert bundle.templates
    for template in bundle.templates.values():
        contract = template.contract
        assert contract.allowed, template.name
        assert contract.allowed | contract.needs_approval <= operations, template.name
        assert all(budget.operations <= contract.allowed for budget in template.budgets), template.name
        assert not contract.needs_approval or f'"{contract.approver}:' in rules, template.name


@pytest.mark.parametrize("name", NAMES)
def test_copy_of_a_pack_passes_the_tests_of_the_pack(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "policy"
    run("policy", "new", "--pack", name, str(directory))
    assert {path.name for path in directory.iterdir()} == {path.name for path in packs()[name].iterdir()}
    run("policy", "lint", str(directory))
    run("policy", "test", str(directory))


def test_copy_overwrites_nothing_and_leaves_nothing_half(tmp_path: Path) -> None:
    (tmp_path / "rules.cedar").write_text("mine")
    with pytest.raises(PackError, match=r"rules\.cedar` is there already"):
        copy_pack("support", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rules.cedar"]
    assert (tmp_path / "rules.cedar").read_text() == "mine"


def test_pack_of_another_name_is_refused_with_the_known_names(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"no pack `\.\./support`; known: coding, day-one"):
        copy_pack("../support", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_story_is_found_by_name_alone() -> None:
    assert find_pack("support") == PACKS / "support"
    for name in ("day-one", "nobody", "../packs/support", "../refund", ""):
        with pytest.raises(ProjectError, match="no pack"):
            find_pack(name)


# --- what day-one has beside its rules ---

DAY_ONE = PACKS / "day-one" / "policy"
NOTHING = read_json(compile_schema('{"type": "object", "additionalProperties": false}'), b"{}")
TIER_ABOVE = (("look", "read", 2), ("prepare", "change", 3), ("work", "send", 4))
"""By template: what it allows, and the first tier that its autonomy mode does not."""


@pytest.mark.parametrize(("template", "operation", "tier"), TIER_ABOVE)
def test_day_one_enforces_the_autonomy_mode_of_a_task(template: str, operation: str, tier: int) -> None:
    contract = load_bundle(read_bundle_source(DAY_ONE, environment="test")).templates[template].contract
    assert isinstance(NOTHING, Arguments)
    refusal = check_contract(contract, operation=operation, tier=tier, arguments=NOTHING)
    assert refusal is not None
    assert refusal.reason is Reason.CONTRACT_REFUSED
    assert check_contract(contract, operation=operation, tier=tier - 1, arguments=NOTHING) is None


def test_day_one_stops_the_fourth_same_call_and_not_the_third() -> None:
    limits = load_bundle(read_bundle_source(DAY_ONE, environment="test")).loops
    assert limits is not None
    history, shape = History(), Shape(b"one", ())
    seen = []
    for number in range(4):
        seen.append(history.judge(shape, f"call-{number}", limits, now_ms=number) is None)
        history.permitted(shape, f"call-{number}")
    assert seen == [True, True, True, False]
