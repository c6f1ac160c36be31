"""`python -m fumarole`: the command line."""

from fumarole.cli.main import main

main()
