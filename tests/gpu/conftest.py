"""What tests of PyTorch share; those without it never ask for it."""

import pytest


@pytest.fixture
def one_thread():
    """Compute on one thread, with the same random numbers each time and no gradients."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)
