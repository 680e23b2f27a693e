"""What a request list costs to draw and prepare, beside the simulation that it is drawn for."""

from bench_cases import h8_scenario, lanes
from measuring import least_time, time_lanes

from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.simulate import simulate_batch
from kvsweep.simulate.list_records import prepare, prepare_all
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.generate import generate, generate_all


def test_drawing_a_list(tables, smoke):
    seeds, repeats = (range(2), 1) if smoke else (range(200), 20)
    scenario = h8_scenario(2100)
    workload, entropy = scenario.workload, DEFAULT_ENTROPY
    lists = generate_all(workload, seeds, entropy)

    def simulate():
        simulate_batch([scenario], seeds, entropy=entropy, policies=[None], base_dir=None)

    kernel, _ = time_lanes(lanes(scenario, lists), repeats)
    drawing = {
        "drawn, many seeds together": lambda: generate_all(workload, seeds, entropy),
        "drawn, one by one": lambda: [generate(workload, seed, entropy) for seed in seeds],
        "block keys and kernel records": lambda: prepare_all(lists, 16, 0),
        "the same, one by one": lambda: [
            prepare(requests, resolve_blocks(requests, 16)) for requests in lists
        ],
        "whole cell: list, kernel, reductions": simulate,
    }
    found = {what: least_time(action, repeats) / len(seeds) for what, action in drawing.items()}
    found["kernel at 2,100 blocks"] = kernel
    tables.add(
        "Drawing a request list, H8",
        ("part", "us per list"),
        [(what, f"{1e6 * seconds:.1f}") for what, seconds in found.items()],
        f"{len(seeds)} seeds. A search draws a list for nearly every simulation.",
    )
