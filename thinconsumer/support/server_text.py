"""Texts that a server or a proxy has sent, for errors: bounded, printable, and without the client's secrets."""

#: Maximum number of characters of a server's text in an error: a hostile server could send as many as a frame holds.
SERVER_TEXT_MAX = 300
HIDDEN = "<hidden>"


def _is_hidden(secret: str) -> bool:
    """Return whether to hide a secret: not if it may be an ordinary word, or is very short. "Invalid username or
    <hidden>" would tell readers of a log that the secret is "password".
    """
    return len(secret) >= 4 and not (len(secret) < 16 and secret.isalpha())


def shown(text: str, *secrets: str) -> str:
    """Return a server's text for an error: short, printable, and with :data:`HIDDEN` in place of ``secrets``."""
    # Secrets are replaced before the text is cut and escaped: afterwards a part of one could remain.
    for secret in sorted(filter(_is_hidden, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    escaped = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[: SERVER_TEXT_MAX + 1])
    return escaped if len(escaped) <= SERVER_TEXT_MAX else f"{escaped[:SERVER_TEXT_MAX]}..."
