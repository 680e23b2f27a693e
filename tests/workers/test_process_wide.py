"""Changes of the whole process while sweeps run in several threads at once."""

import logging
from contextlib import ExitStack

import dask

from kvsweep.workers.process_wide import SETTINGS, silenced, unobserved


def test_blocks_that_overlap_leave_loggers_and_settings_as_they_were():
    """Each put back what it had found: the last one the silence of the first, for good."""
    logger = logging.getLogger("kvsweep.test")
    logger.setLevel(logging.INFO)
    before = {key: dask.config.get(key) for key in SETTINGS}
    first, second = ExitStack(), ExitStack()
    for run in (first, second):
        run.enter_context(silenced("kvsweep.test"))
        run.enter_context(unobserved())
    first.close()
    assert not logger.isEnabledFor(logging.CRITICAL)
    assert {key: dask.config.get(key) for key in SETTINGS} == SETTINGS
    second.close()
    assert logger.level == logging.INFO
    assert {key: dask.config.get(key) for key in SETTINGS} == before
