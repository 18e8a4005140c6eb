"""The folder of a stack: who looks whether one is up changes nothing and hinders nobody."""

import fcntl
import os
from pathlib import Path

import pytest

from deployments.stack.state import LOCK, StackRunning, StackState


def test_looking_at_the_state_creates_no_folder(tmp_path: Path) -> None:
    state = StackState(tmp_path / "none")
    assert state.running() is None
    assert not state.root.exists()


def test_a_stack_is_up_while_its_supervisor_holds_the_lock(tmp_path: Path) -> None:
    state = StackState(tmp_path)
    with state.supervisor_lock():
        assert state.is_locked()
        with pytest.raises(StackRunning), state.supervisor_lock():
            pass
    assert not state.is_locked()


def test_a_reader_of_the_lock_is_not_taken_for_a_running_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = StackState(tmp_path)
    (tmp_path / LOCK).touch()
    looking = os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("deployments.stack.state.time.sleep", lambda _seconds: os.close(looking))
    with state.supervisor_lock():
        assert state.is_locked()
