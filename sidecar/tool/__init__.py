"""The tool behind the door: the one way to it, its guard and its fences."""
