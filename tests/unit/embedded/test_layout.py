"""What a shell reads of `licet up`: the values, whatever is in them."""

import subprocess

from licet.embedded.layout import exports


def test_shell_gets_each_value_as_it_is_and_runs_nothing_of_it() -> None:
    value = "/a b/$(echo run)`echo run`'\"\\n"
    script = exports(LICET_DECIDER=value) + 'printf %s "$LICET_DECIDER"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == value
