"""Tests of the whole house, running."""
