"""Section 3: the parts of the Transformer, why it trains, and how it writes."""
