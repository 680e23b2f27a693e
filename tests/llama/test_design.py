import pytest

from kvsweep.errors import InputError
from kvsweep.llama.design import Design, parse_sizes


def test_sizes_are_read():
    sizes = parse_sizes("512:256,384:384")
    assert sizes == ((512, 256), (384, 384))
    assert [size.label for size in sizes] == ["512:256", "384:384"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("512", "'512' is not A:B"),
        ("512:", "'512:' is not A:B"),
        ("512:-3", "'512:-3' is not A:B"),
        ("512:0", "'512:0' is not A:B"),
        ("1:2:3", "'1:2:3' is not A:B"),
        ("", "'' is not A:B"),
        ("8:4,4:8,8:4", "8:4 occurs twice"),
    ],
)
def test_bad_sizes_are_named(text, message):
    with pytest.raises(InputError, match=f"--sizes: {message}"):
        parse_sizes(text)


def test_every_repetition_has_every_cell_once_in_an_order_of_its_own():
    design = Design(parse_sizes("8:4,6:6,4:8"), trials=5, seed=3)
    order = list(design.order())
    assert len(order) == len(set(order)) == design.count == 30
    rounds = [[cell[:2] for cell in order[6 * k : 6 * k + 6]] for k in range(5)]
    assert [cell.trial for cell in order] == [k for k in range(5) for _ in range(6)]
    assert len({tuple(cells) for cells in rounds}) == 5
    assert len({tuple(sorted(cells)) for cells in rounds}) == 1


def test_the_order_is_the_seeds():
    orders = [list(Design(parse_sizes("8:4,6:6"), seed=seed).order()) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_the_context_holds_the_longest_prompt_and_its_output():
    assert Design(parse_sizes("512:256,100:700")).context == 800 + 32 + 50
