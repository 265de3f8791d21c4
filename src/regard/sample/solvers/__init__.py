"""Solvers: one file for each paper. A solver moves a noisy image from one noise level to the next."""
