"""The loop breaker: calls that repeat themselves without end are stopped."""
