"""Language models that see, judged by how likely each label is as the answer to a question about the picture."""
