"""The pytest plugin: fairness suites as pytest items, and a `fairness` fixture for tests in Python."""
