"""Hybrid caches, speculative decoding, prefill and decode apart (rules R12 to R14).

- `request`: a request with a table for each group, drafts, and what is accepted of them.
- `windows`: which blocks a window has left, which cached ones a group can use.
- `tables`: blocks of requests with several tables: needed, taken, released, published.
- `scheduler`: two budgets, drafts, padding, requests that pull a prompt's blocks.
- `instance`: steps with what they verified, and with what windows gave back.
- `roles`: instances that prefill or decode, their transfers, and the order of their events.
- `leases`: how long blocks are kept for a transfer, and heartbeats that renew that.
- `checks`: invariants asserted after every step.
"""
