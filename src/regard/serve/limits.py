"""How much of everything: what a request may ask for, and what the server keeps.

What an input of one medium may have (letters, tokens, pixels) stands with its modality, in its ``page.py``.
"""

from dataclasses import dataclass

MOST_CHANGES = 32
LARGEST_BODY = 8 << 20  # bytes
LARGEST_UPLOAD = 8 << 20  # bytes of a file
LONGEST_ADDRESS = 4096  # letters
MOST_HEADERS, LARGEST_HEADERS = 64, 16 << 10


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
    uploads: int = 1 << 26  # bytes of uploaded files that are kept
    token: str = ""  # that every request must bring; none is asked for if it is empty
