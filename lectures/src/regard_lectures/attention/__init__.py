"""Section 2 of the lectures: attention by itself."""
