"""A model that a server serves by the chat-completions protocol."""
