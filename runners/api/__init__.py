"""What every door of the HTTP API shares: who asks, what they may do, how bodies are read and refusals answered."""
