"""The router: its state, what it knows of instances, its index."""

from kvsweep.records.fields import Field, dtype_of, f64, i32, i64

ROUTER_FIELDS = (
    Field("serial", i64, "1", "number of the lane in this workspace, from 1"),
    Field("first", i64, "index", "first instance that may get the request being routed"),
    Field("end", i64, "index", "the one behind the last of them"),
    Field("home", i64, "index", "which of the homes of its prompt is among them"),
    Field("refreshed", i64, "us", "when the snapshots were last taken"),
    Field("refilled", i64, "us", "when the token bucket was last refilled"),
    Field("tokens", f64, "token", "what the token bucket holds"),
    Field("answered", i64, "1", "sticky: requests that have an answer, or will have none: the new"),
)

SENT_FIELDS = (
    Field("instance", i32, "index", "sticky: where a request was sent, NONE: nowhere, or by load"),
    Field("decoder", i32, "index", "the same of its decode instance, if that is another one"),
    Field("tokens", i64, "token", "of its prompt, those that the router's index had not there"),
    Field("decoder_tokens", i64, "token", "the same of its decode instance"),
)

SNAPSHOT_FIELDS = (
    Field("load", i64, "request", "requests here, as far as the router knows"),
    Field("utilization", f64, "1", "share of the blocks in use"),
    Field("transfer", i64, "us", "transfers between the tiers charged to the step under way"),
    Field("thrashing", f64, "1", "share of the offloaded blocks that came back at once"),
    Field("held", i64, "block", "leading blocks of the prompt that the cache holds"),
    Field("matched", i64, "block", "leading blocks of the prompt that the router's index has"),
    Field("in_flight", i64, "token", "sticky: those of requests sent that have no answer yet"),
    Field("score", f64, "1", "weighted sum of scores of the request being routed"),
    Field("turn", i64, "index", "round-robin: of the instances from here on, the next one"),
    Field("oldest", i64, "index", "router's index: node that is forgotten next"),
    Field("newest", i64, "index", "router's index: node recorded last"),
    Field("indexed", i64, "block", "router's index: blocks"),
)

NODE_FIELDS = (
    Field("prev", i32, "index", "neighbour in the router's index, the next to be forgotten"),
    Field("next", i32, "index", "neighbour in the router's index"),
    Field("size", i32, "block", "blocks of the extent that the index has: the last ones"),
)

ROUTER = dtype_of(ROUTER_FIELDS)
SNAPSHOT = dtype_of(SNAPSHOT_FIELDS)
SENT = dtype_of(SENT_FIELDS)
NODE = dtype_of(NODE_FIELDS)
