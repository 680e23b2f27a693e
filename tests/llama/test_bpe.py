from kvsweep.llama.bpe import END_OF_TEXT, byte_symbols, learn_merges, vocabulary
from kvsweep.llama.words import WORDS


def test_bytes_have_symbols_of_their_own():
    symbols = byte_symbols()
    assert len(set(symbols)) == 256
    assert all(symbol.isprintable() for symbol in symbols)
    assert {"!", "a", "Ġ"} <= set(symbols)


def test_the_heaviest_pair_is_merged_first():
    assert learn_merges(["aba", "ab"], 3) == [("a", "b"), ("Ġ", "ab"), ("Ġab", "a")]


def test_words_become_one_token_each_where_there_is_room():
    tokens, merges = vocabulary(WORDS, 1500)
    assert {f"Ġ{word}" for word in WORDS} <= set(tokens)
    assert len(tokens) == len(set(tokens)) == 1500
    assert tokens[-1] == END_OF_TEXT
    assert len(merges) < 1500 - 257


def test_merges_make_tokens_of_the_vocabulary():
    tokens, merges = vocabulary(WORDS, 400)
    assert len(tokens) == 400
    assert ["".join(pair) for pair in merges] == tokens[256:-1]


def test_the_smallest_vocabulary_is_bytes_alone():
    assert vocabulary(WORDS, 257) == ([*byte_symbols(), END_OF_TEXT], [])
