"""The README as PyPI shows it: with links to this project's repository in place of those to files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A link or a picture, unless it has a scheme or points into the page itself.
RELATIVE = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?![a-z]+:|#)(?P<path>[^)\s]+)\)")


def absolute(text: str, repository: str) -> str:
    """Return a page of the repository's root with absolute links; pictures are linked to as files, not as pages."""
    return RELATIVE.sub(
        lambda link: (
            f"{link['picture']}[{link['text']}]"
            f"({repository}/{'raw' if link['picture'] else 'blob'}/main/{link['path']})"
        ),
        text,
    )


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling for the metadata of each distribution that is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = absolute(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
