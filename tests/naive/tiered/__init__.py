"""CPU offload as vLLM does it, beside groups of layers or drafts: the twin alone has it so far.

- `connector`: what is loaded and stored of each group, and what all of them agree on.
- `scheduler`: requests with several tables or drafts, some of which wait for a load.
- `instance`: steps with what they verified, gave back, stored, loaded and awaited.
- `roles`: instances that prefill or decode, and have a tier beside what they hand over.
"""

from .instance import TieredInstance

__all__ = ["TieredInstance"]
