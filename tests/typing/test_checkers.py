"""mypy and pyright accept what applications write, and report misspelt options and wrong types."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISTAKES = Path(__file__).with_name("mistakes.py")
CHECKERS = {
    "mypy": ([sys.executable, "-m", "mypy", "--strict"], r"mistakes\.py:(\d+): error"),
    "pyright": ([str(Path(sys.executable).with_name("pyright"))], r"mistakes\.py:(\d+):\d+ - error"),
}


@pytest.mark.parametrize("name", CHECKERS)
@pytest.mark.timeout(300)
def test_a_checker_reports_each_mistake_of_an_application_and_nothing_else(name: str, tmp_path: Path) -> None:
    """Without the comments that expect them, the errors are on the lines of these comments."""
    if name == "mypy":
        pytest.importorskip("mypy")
    elif not Path(CHECKERS[name][0][0]).exists():
        pytest.skip("pyright is not installed beside this interpreter")
    lines = MISTAKES.read_text(encoding="utf-8").splitlines()
    expected = [number for number, line in enumerate(lines, 1) if "# type: ignore" in line]
    (tmp_path / "mistakes.py").write_text("\n".join(line.split("  # type: ignore")[0] for line in lines) + "\n")
    shutil.copy(Path(__file__).with_name("application.py"), tmp_path)
    (tmp_path / "thinconsumer").symlink_to(ROOT / "thinconsumer")
    (tmp_path / "thinconsumer_testing").symlink_to(ROOT / "testing" / "thinconsumer_testing")
    command, pattern = CHECKERS[name]
    done = subprocess.run(
        [*command, "mistakes.py", "application.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    found = sorted({int(number) for number in re.findall(pattern, done.stdout)})
    assert found == expected, done.stdout + done.stderr
    assert "application.py:" not in done.stdout
