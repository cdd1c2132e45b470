"""Models that match pictures and texts, judged by one of their two heads."""
