"""Letters that a tokenizer has cut into bytes, shown as letters: both tokens of a cut ï say so, as ï₁ and ï₂."""

from collections.abc import Sequence

from regard.look.subwords import PARTS

UNREADABLE = "�"
LONE = range(0xD800, 0xE000)  # what Python makes of a byte that belongs to no letter


def label_pieces(pieces: Sequence[bytes]) -> tuple[str, ...]:
    """One readable label for each of the pieces of a text, in which no letter is lost between two of them."""
    ends, size = [], 0
    for piece in pieces:
        ends.append(size := size + len(piece))
    found, number, place, part = [""] * len(pieces), 0, 0, 0
    for letter in b"".join(pieces).decode("utf-8", "surrogateescape"):
        shown = UNREADABLE if ord(letter) in LONE else letter
        end, part = place + len(letter.encode("utf-8", "surrogateescape")), 0
        while ends[number] <= place:
            number += 1
        whole = ends[number] >= end
        for here in range(number, len(pieces)):
            if here > number and ends[here - 1] >= end:
                break
            if pieces[here]:
                found[here] += shown if whole else f"{shown}{PARTS[part]}"
                part += 1
        place = end
    return tuple(found)
