"""What every attention, mixer, family, task and kind of data must keep: checks that say in words what fails.

`regard contract my.py` asks them of what a file of one's own registers, tests/contracts of the library's own rows.
"""
