"""Members of a counterfactual set made together: their attention is the base member's."""
