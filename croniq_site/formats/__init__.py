"""How numbers are written, by language, where it is not as Django has it."""
