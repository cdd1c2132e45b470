"""Tables and figures of a user's own models: the papers' studies, comparisons, power. Nothing here judges."""
