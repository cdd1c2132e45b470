"""The dataset factory: a recipe and an engine make a build, which people review and a person releases."""
