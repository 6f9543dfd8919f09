from __future__ import annotations

import logging
import pathlib

from kube_fairlead.base import logs
from kube_fairlead.base.logfile import LogFile


def test_lines_are_appended_and_there_at_once(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "folder" / "agent.log"
    for word in ("one", "two"):
        file = LogFile(path)
        file.write(f"{word} ä\n")
        assert path.read_text(encoding="utf-8").endswith(f"{word} ä\n")
        file.close()
    assert path.read_text(encoding="utf-8") == "one ä\ntwo ä\n"


def test_a_full_file_is_set_aside_once(tmp_path: pathlib.Path) -> None:
    file = LogFile(tmp_path / "agent.log", bytes_max=10)
    for number in range(9):
        file.write(f"line {number}\n")
    file.close()
    assert (tmp_path / "agent.log").read_text() == "line 8\n"
    assert (tmp_path / "agent.log.1").read_text() == "line 6\nline 7\n"
    assert len(list(tmp_path.iterdir())) == 2


def test_log_lines_go_there(tmp_path: pathlib.Path) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    file = LogFile(tmp_path / "agent.log")
    try:
        logs.configure(stream=file)
        logs.get_logger("here").info("said", to="the file")
    finally:
        root.handlers, level = before
        root.setLevel(level)
        file.close()
    assert "here: said to=" in (tmp_path / "agent.log").read_text()
