"""PTX integer instructions."""
