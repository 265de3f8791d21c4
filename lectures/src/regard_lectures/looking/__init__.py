"""Section 11: what can be seen in a trained model."""
