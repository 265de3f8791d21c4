"""Convolutions, and transformers that look at images."""
