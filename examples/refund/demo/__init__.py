"""The failure and its end: the agent that refunds all the same, ungated and gated, and attacks on the gate.

`licet demo` plays it; tests/e2e runs the same cases, one test each.
"""
