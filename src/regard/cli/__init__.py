"""The command line: app.py is the shell, and each verb is a file of its own."""
