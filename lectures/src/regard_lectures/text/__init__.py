"""Section 4: nets that read and write text."""
