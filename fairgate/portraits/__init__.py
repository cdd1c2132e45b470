"""The embedded world: drawn people and tiny models with a planted association, an instrument to test the gate on."""
