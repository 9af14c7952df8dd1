"""The id of the process without a system call: that of the child after a fork."""

import os

import pytest

from thinconsumer.net.process import PROCESS


def test_the_id_is_that_of_this_process():
    assert os.getpid() == PROCESS.pid


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_its_own_id():
    parent = PROCESS.pid
    child = os.fork()
    if child == 0:
        os._exit(0 if parent != PROCESS.pid == os.getpid() else 1)
    assert os.waitpid(child, 0) == (child, 0)
    assert parent == PROCESS.pid
