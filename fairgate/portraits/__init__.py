"""The demonstration data: drawn people and tiny models with a planted association, to test the gate on."""
