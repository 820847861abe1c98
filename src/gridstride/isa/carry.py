"""PTX carry instructions."""
