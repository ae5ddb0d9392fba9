"""Is a reward function fit for training: the checks, and what they need."""
