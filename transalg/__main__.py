"""`python -m transalg` is the command `transalg`."""

from transalg.cli import main

main()
