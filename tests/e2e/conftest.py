"""Stories are told on the stack that they share with other tests, unless a file has one of its own."""

import pytest

from tests.support.stack import RunningStack


@pytest.fixture(scope="module")
def stack(shared_stack: RunningStack) -> RunningStack:
    return shared_stack
