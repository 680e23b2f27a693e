"""Small scenarios and requests for the replica's tests."""

LATENCY = {
    "alpha": [1601.350510688092, 3.512476196805965, 1805.5430360826988],
    "beta": [6910.420479880494, 17.67057489844186, 2.8377471109943855],
}


def scenario(blis=None, engine=None, cache=None, cluster=None):
    return {
        "engine": {"rules": "blis", "blis": blis or {}, **(engine or {})},
        "cache": cache or {},
        "cluster": cluster or {},
        "latency": LATENCY,
    }


def request(arrival_us, prompt, output, **more):
    """A request with a one-segment prompt: ``prompt`` and ``output`` are (segment, tokens)."""
    return {"arrival_us": arrival_us, "prompt": [list(prompt)], "output": list(output), **more}
