"""`python -m gridstride.cli`, for where the `gridstride` script is not on the path."""

from gridstride.cli import main

main()
