"""The block pool of an instance: allocate, cache, look up, touch, free, evict; the CPU tier."""
