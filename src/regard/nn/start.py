"""How random weights start."""


def deviation(dim: int) -> float:
    """0.02, as GPT-2 and BERT were published at width 768 and above; wider in a narrower net.

    Scores grow with dim * deviation^2: at width 64, 0.02 leaves all attention uniform for thousands of steps.
    """
    return float(0.02 * max(768 / dim, 1.0) ** 0.5)
