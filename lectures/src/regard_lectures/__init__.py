"""One file a lecture figure or a paper's claim: compute, draw, checks."""
