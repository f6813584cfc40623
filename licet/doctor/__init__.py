"""`licet doctor`: looks at one process's surroundings as that process would, and says what to mend.

Guarantees: it changes nothing, and a check that could not look is a problem, never fine. Not guaranteed: that
a call goes through when all is well here; the door decides that, call by call.
"""

from licet.doctor.finding import Finding, State

__all__ = ["Finding", "State"]
