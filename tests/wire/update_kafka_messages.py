"""Renew ``kafka_messages.json`` from a newer jar: ``update_kafka_messages.py kafka-clients-X.Y.Z.jar``.

Only the part called "current" is replaced. Then ``test_declarations.py`` says what has changed in Kafka. When a release
drops old versions of an API, move that API's entry to "removed" first, so that they stay compared.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

FACTS = Path(__file__).parent / "kafka_messages.json"


def without_prose(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_prose(item) for key, item in value.items() if key != "about"}
    return [without_prose(item) for item in value] if isinstance(value, list) else value


def read_definition(jar: zipfile.ZipFile, name: str) -> Any:
    text = jar.read(f"common/message/{name}.json").decode()
    return without_prose(json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)))


def write(facts: dict[str, Any]) -> None:
    """One line per message, so that a diff shows which one has changed."""
    lines = ["{", f'"origin": {json.dumps(facts["origin"])},']
    for section, end in (("current", "},"), ("removed", "}")):
        rows = [f'"{name}": {json.dumps(item, separators=(",", ":"))}' for name, item in facts[section].items()]
        lines += [f'"{section}": {{', ",\n".join(rows), end]
    FACTS.write_text("\n".join([*lines, "}", ""]))


def main(path: Path) -> None:
    facts = json.loads(FACTS.read_text())
    with zipfile.ZipFile(path) as jar:
        facts["current"] = {name: read_definition(jar, name) for name in facts["current"]}
    facts["origin"]["current"] = f"{path.stem}, common/message"
    write(facts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
