"""What people and programs call: Python, the command line, pytest, training callbacks. They parse, call and print."""
