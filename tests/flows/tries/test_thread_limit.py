"""Who answers a try's questions for threads, where there is nobody to answer."""

import os
import threading

from flows.tries.thread_limit import ThreadBound


def test_descriptor_that_is_no_listener_ends_its_thread() -> None:
    """It says for ever that there is something to be read."""
    bound = ThreadBound(10)
    bound.take(os.open(os.devnull, os.O_RDONLY))
    for thread in threading.enumerate():
        if thread.name == "thread-bound":
            thread.join(60)
            assert not thread.is_alive()
    bound.close()
