"""Series: numbers with times, and what comes next."""
