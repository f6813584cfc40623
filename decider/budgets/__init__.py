"""Budgets: what calls may use up together, booked before a permit leaves, settled when the step is done."""
