"""Numbers as in English: the same ones are in the drawings, and `12,5` is no coordinate."""

DECIMAL_SEPARATOR = "."
THOUSAND_SEPARATOR = "\u202f"
