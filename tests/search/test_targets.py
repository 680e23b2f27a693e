"""What a search looks at in a batch."""

import numpy as np

from kvsweep.policies import Status
from kvsweep.search.targets import Target


def test_a_count_that_is_absent_is_no_value():
    results = {
        "preemptions": np.array([[3, -1], [-1, 0]]),
        "status": np.array([[Status.OK, Status.OK], [Status.LIVELOCK, Status.OK]], np.int8),
    }
    found = Target("preemptions", 5.0).values(results)
    np.testing.assert_array_equal(found, [[3.0, np.nan], [np.nan, 0.0]])
