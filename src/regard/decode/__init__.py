"""From a model that foretells the next word to texts: greedy, sampled, streamed, by beam search."""
