"""The command ``migrate``."""

import json

from thinconsumer.cli.run import main

PROGRAM = 'from kafka import KafkaConsumer\nKafkaConsumer("t", api_version=(2, 0))\n'


def test_findings_are_lines_and_the_exit_code_says_whether_there_are_any(tmp_path, capsys):
    file = tmp_path / "app.py"
    file.write_text(PROGRAM)
    assert main(["migrate", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == (
        f"{file}:1: import from kafka -> from thinconsumer.compat.kafka import KafkaConsumer"
        " (the same names and calls)\n"
        f"{file}:2: api_version -> leave it out (versions are negotiated with each broker)\n"
    )
    assert err == "1 file read, 2 changes in 1 file\n"
    file.write_text("from thinconsumer.compat.kafka import KafkaConsumer\n")
    assert main(["migrate", str(file)]) == 0
    assert capsys.readouterr() == ("", "1 file read, 0 changes in 0 files\n")


def test_folders_are_searched_and_unreadable_files_are_errors(tmp_path, capsys):
    for name in ("b/app.py", "a.py", "b/notes.txt", ".venv/c.py", "lib/site-packages/d.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM)
    (tmp_path / "old.py").write_text("import kafka\nprint 'x'\n")
    assert main(["migrate", "--json", str(tmp_path), str(tmp_path / "none.py")]) == 2
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["file"] for row in rows} == {str(tmp_path / "a.py"), str(tmp_path / "b/app.py")}
    assert rows[1] == {
        "file": str(tmp_path / "a.py"), "line": 2, "what": "api_version", "instead": "leave it out",
        "why": "versions are negotiated with each broker", "also": [],
    }  # fmt: skip
    lines = err.splitlines()
    assert lines[0].startswith(f"error: {tmp_path / 'old.py'}: line 2: ")
    assert lines[1:] == [
        f"error: cannot read {tmp_path / 'none.py'}: No such file or directory",
        "4 files read, 4 changes in 2 files",
    ]
