"""Published definitions (metrics) and inference (statistics) on NumPy arrays. No suites, no files."""
