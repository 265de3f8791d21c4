"""Images that a model draws, and how they are measured."""
