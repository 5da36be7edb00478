"""What every app may use and nothing of the product: clock, stop token, loop, errors, database helpers, text rules."""
