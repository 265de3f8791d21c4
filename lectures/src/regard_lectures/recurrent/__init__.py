"""Section 1: recurrent networks, and the encoder-decoders made of them."""
