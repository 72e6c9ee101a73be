"""From finding to fix: who must not share bytes, where everybody can live, and the program with its new plan."""
