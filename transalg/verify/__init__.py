"""The engine held against the formal algorithms, as a tool: equalities, invariances, and the cases to look at."""
