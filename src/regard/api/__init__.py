"""Training from Python: the same runs as those of the command line, with data in memory, callbacks and a search."""
