"""One module per model URI scheme; `fairgate.models.registry` says which, and imports it when it is asked for."""
