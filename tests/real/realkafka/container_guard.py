"""Remove the containers of a test run once it has ended: ``python container_guard.py KEY=VALUE``, which is their label.

Standard input is a pipe whose other end the run holds. The kernel closes that end when the run ends, also by SIGKILL,
which runs no cleanup. Testcontainers' own way is a container with Ryuk, which needs an image of its own.
"""

import subprocess
import sys
import time

#: What a run writes to the pipe at its end, if it is not killed.
ORDERLY = b"end"
#: The engine may still be creating a container when a run is killed.
ROUNDS, PAUSE_SECONDS = 3, 1.0


def main(label: str) -> None:
    """Wait for the end of the run, then remove what it has left."""
    is_orderly = sys.stdin.buffer.read() == ORDERLY
    for number in range(1 if is_orderly else ROUNDS):
        if number:
            time.sleep(PAUSE_SECONDS)
        listed = subprocess.run(
            ["docker", "ps", "--all", "--quiet", "--filter", f"label={label}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if found := listed.stdout.split():
            subprocess.run(["docker", "rm", "--force", "--volumes", *found], capture_output=True, check=False)


if __name__ == "__main__":
    main(sys.argv[1])
