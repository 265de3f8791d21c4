"""How much of everything: what a request may ask for, and what the server keeps."""

from dataclasses import dataclass

LETTERS = 4096  # of a text
TOKENS = 2048  # of a text
REWEIGHTED = 512  # of a text whose weights are changed: those maps are kept whole
INFLUENCED = 160  # of a text whose net mixes without weights: each position's influence takes a pass of its own
PIXELS = 16_000_000  # of an image
PLAIN_PIXELS = 1_000_000  # of an image for a net that takes it as large as it is
CHANGES = 32
BODY = 8 << 20  # bytes
ADDRESS = 4096  # letters
HEADERS, HEADER_BYTES = 64, 16 << 10


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may differ from server to server."""

    seconds: float = 30.0  # from the arrival of a request to its answer
    head_seconds: float = 10.0  # until the head of a request has arrived, and a client has read on
    body_seconds: float = 10.0  # until a body has arrived
    connections: int = 256  # that are open at once
    queue: int = 64  # requests that wait for the processor
    workers: int = 1  # threads that compute
    together: int = 16  # requests that are computed as one batch
    pause: float = 0.004  # seconds in which others may join a batch
    looks: int = 1 << 29  # bytes of looks that are kept
    models: int = 1 << 30  # bytes of weights that are kept
    token: str = ""  # that every request must bring; none is asked for if it is empty
