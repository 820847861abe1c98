"""PTX select instructions."""
