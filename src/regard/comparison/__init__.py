"""One model, many attentions: what each costs, what it learns, and how far it is from exact attention."""
