"""Claims beyond the two papers."""
