"""Before attention: layers, counts, hidden states."""
