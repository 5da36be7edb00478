"""The API as views of the rest framework: each reads its input, calls one service or query, and shapes the answer."""
