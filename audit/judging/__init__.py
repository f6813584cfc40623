"""How each step went: evidence of three parties, joined, judged, told, and closed where it was left open."""
