"""The page, and the HTTP API under it."""
