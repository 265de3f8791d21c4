"""`python -m regard` is `regard`."""

from regard.cli.app import program

program()
