"""Attention that costs less, and mixing without it."""
