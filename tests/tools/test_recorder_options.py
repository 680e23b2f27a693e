"""Options of a release beside those that are known: what is new, gone, or of another form."""

from argparse import ArgumentParser

from record_vllm.options import differences

from kvsweep.vllm_command.options import options

NARGS = {"list": "+", "optional": "?", "value": None}


def parser(forms):
    """Return a parser of options by name, each of a form."""
    made = ArgumentParser(allow_abbrev=False)
    for name, form in forms.items():
        if form == "switch":
            made.add_argument(name, action="store_true")
        else:
            made.add_argument(name, nargs=NARGS[form])
    return made


def test_a_parser_with_the_options_that_are_known_has_no_difference():
    known = {name: option.form for name, option in options().items()}
    assert list(differences(parser(known)._actions)) == []


def test_what_is_new_gone_or_of_another_form_is_named():
    known = {name: option.form for name, option in options().items()}
    del known["--watermark"]
    known |= {"--brand-new": "switch", "--max-num-seqs": "list"}
    assert sorted(differences(parser(known)._actions)) == [
        "--brand-new (switch): not known",
        "--max-num-seqs: list, known as value",
        "--watermark: known, and not there",
    ]


def test_another_name_of_an_option_that_is_known():
    made = parser({name: option.form for name, option in options().items() if name != "--seed"})
    made.add_argument("--seed", "--sowing")
    assert list(differences(made._actions)) == ["--sowing: not known for --seed"]
