"""Lanes whose requests have tables of blocks, one for each group of layers.

For what extents and counts cannot tell: several groups of layers with windows, several tokens a
step of a decoding request, instances that differ, prefill and decode apart, pipelines (rules R12 to
R16). A step visits each running request but those who are *counted*, as they only decode, and
takes, frees and caches block by block. Everything around it (routing, waiting lists, holders, step
times, tallies) is that of all lanes. Each instance reads its own LANE record (`ws.own`), so that
unequal instances need no rules of their own.
"""
