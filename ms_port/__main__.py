"""``python -m ms_port``."""

from ms_port.cli import main

main()
