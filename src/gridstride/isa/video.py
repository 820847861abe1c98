"""PTX video instructions."""
