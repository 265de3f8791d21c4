"""What mixers without scores share: they see a sequence as a whole, with its padding taken out, or not at all.

Shapes: b batch (any leading axes), n positions, d width.
"""


