"""PTX bits instructions."""
