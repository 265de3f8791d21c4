"""Section 3: where word vectors come from, and how a Transformer is taught."""
