"""The one exception that reaches people: a line that says what, where and what to do."""


class UserError(Exception):
    """Bad input or an unfit machine. The command line prints the message alone and exits with 2."""
