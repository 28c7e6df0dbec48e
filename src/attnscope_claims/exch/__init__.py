"""Claims of and around exchangeability (Zhang, Liu, Cai, Wang, Wang)."""
