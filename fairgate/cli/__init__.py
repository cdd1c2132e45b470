"""The `fairgate` command: each module parses one group of commands, calls the floors below, and prints."""
