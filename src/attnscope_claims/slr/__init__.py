"""Claims of and around single-location regression (Marion, Berthier, Biau, Boyer)."""
