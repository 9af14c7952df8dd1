"""How errors show a value that a user has passed."""


def shown(value: object) -> str:
    """Return ``repr(value)``, or the type if Python refuses to write a number in it: one of more than 4,300 digits."""
    try:
        return repr(value)
    except ValueError:
        return f"<{type(value).__name__} with too many digits>"
