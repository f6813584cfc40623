"""What a model may be shown: hidden only where no facts could make it allowed."""

import pytest

from decider.policy.rules import parse_rules
from decider.task.visible import is_visible

PERMIT = '@id("p") permit (principal == Agent::"bot", action == Action::"refund", resource);'


@pytest.mark.parametrize(
    ("rules", "shown"),
    [
        ("", False),
        (PERMIT, True),
        (PERMIT.replace('"bot"', '"other"'), False),
        (PERMIT.replace('"refund"', '"read"'), False),
        (PERMIT.replace('principal == Agent::"bot"', "principal"), True),
        (PERMIT.replace('principal == Agent::"bot"', "principal is Agent"), True),
        (PERMIT.replace('== Action::"refund"', 'in [Action::"refund", Action::"x"]'), True),
        (PERMIT.replace('== Action::"refund"', 'in [Action::"y", Action::"x"]'), False),
        (PERMIT.replace('== Action::"refund"', 'in Action::"group"'), True),
        (PERMIT.replace(";", " when { false };"), True),
        (PERMIT + '@id("f") forbid (principal, action, resource);', False),
        (
            PERMIT + '@id("f") forbid (principal == Agent::"bot", action == Action::"refund", resource);',
            False,
        ),
        (PERMIT + '@id("f") forbid (principal == Agent::"other", action, resource);', True),
        (PERMIT + '@id("f") forbid (principal, action, resource) when { true };', True),
        (PERMIT + '@id("f") @hold("lead:1") forbid (principal, action, resource);', True),
        (PERMIT + '@id("f") forbid (principal, action, resource is Order);', True),
    ],
)
def test_hidden_only_where_no_facts_could_allow(rules: str, shown: bool) -> None:
    assert is_visible(parse_rules(rules), "bot", "refund") is shown
