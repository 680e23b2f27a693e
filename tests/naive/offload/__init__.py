"""CPU offload as vLLM does it (rules R11): its OffloadingConnector, and a device that copies.

- `lru`, `arc`: which chunks of the CPU tier make room.
- `manager`: the chunks on the CPU, who may read them, what is refused.
- `connector`: what a scheduler stores and loads, and which copies a step must wait for.
- `streams`: when copies begin and end; one stream each way.
- `scheduler`: requests that wait for a load, and those that pass them.
- `instance`: empty steps, stalls, and reports that end with a step.
"""

from .instance import OffloadInstance

__all__ = ["OffloadInstance"]
