"""§4: characters, words, byte-level BPE: lossless where said, special tokens last, read by others unchanged."""

import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import SHARED
from tests.tokenization.rearrange import rearranged
from transalg.hyper import SpecialTokens
from transalg.tokenization import KINDS, Tokenizer, kind_of_text, size_for_text, train
from transalg.tokenization.vocabulary import Kind, from_files

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")
EXAMPLE = "My grandma makes the best apple pie."
PROSE = ["the cat sat on the mat.", "the dog, the cat; and the bird!", "naïve café – 猫が好き 👩‍🚀\n\n  twice\ttabbed"]


def fast(tokenizer: Tokenizer, folder) -> "transformers.PreTrainedTokenizerFast":
    tokenizer.save(folder / "tokenizer.json")
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def test_the_example_of_section_4() -> None:
    """36 characters; 8 words, the full stop being one (erratum 14)."""
    characters, words = train("char", [EXAMPLE]), train("word", [EXAMPLE])
    assert len(characters.encode(EXAMPLE, ends=False)) == 36
    assert [words.token(one) for one in words.encode(EXAMPLE, ends=False)] == ["My", "grandma", "makes", "the", "best", "apple", "pie", "."]
    assert words.decode(words.encode(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_the_last_three_and_text_lies_between_them(kind: str) -> None:
    tokenizer = train(kind, PROSE, 300)
    x = tokenizer.encode("the cat")
    assert (x[0], x[-1]) == (tokenizer.bos_token, tokenizer.eos_token) == (tokenizer.N_V - 2, tokenizer.N_V - 1)
    assert [tokenizer.token(one) for one in range(tokenizer.N_V - 3, tokenizer.N_V)] == ["<mask>", "<bos>", "<eos>"]
    assert all(one < tokenizer.N_V - 3 for one in x[1:-1]) and tokenizer.encode("the cat", ends=False) == x[1:-1]
    assert tokenizer.decode(x) == "the cat" and tokenizer.kind == kind


@given(st.text(min_size=1))
def test_characters_are_lossless_on_their_own_text(text: str) -> None:
    tokenizer = train("char", [text])
    x = tokenizer.encode(text)
    assert len(x) == len(text) + 2 and tokenizer.decode(x) == text
    assert len(set(text)) + 3 == tokenizer.N_V


BPE = train("bpe", PROSE * 3, 320)


@given(st.text())
def test_bpe_is_lossless_on_any_text(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["a <mask> b", "<bos>", "<eos><eos>", "<unk>"])
def test_what_looks_like_a_special_token_is_text(kind: str, text: str) -> None:
    tokenizer = train(kind, [*PROSE, "a b < > mask bos eos unk <> <unk>"], 320)
    x = tokenizer.encode(text)
    assert all(one < tokenizer.mask_token for one in x[1:-1])
    if kind != "word":
        assert tokenizer.decode(x) == text
    with_special = tokenizer.encode(text, special=True)
    assert (tokenizer.mask_token in with_special) == ("<mask>" in text)
    assert tokenizer.encode(text) == x  # the option leaves no trace


def test_what_is_not_in_the_vocabulary() -> None:
    """Characters are left out, words become <unk>, bytes are all there; unknown() tells."""
    characters, words = train("char", ["abc"]), train("word", ["a b c"])
    assert characters.decode(characters.encode("a-b?c-")) == "abc" and characters.unknown("a-b?c-") == ["-", "?"]
    assert [words.token(one) for one in words.encode("a xyz c", ends=False)] == ["a", "<unk>", "c"] and words.unknown("a xyz c") == ["xyz"]
    assert characters.encode("?") == [characters.bos_token, characters.eos_token]
    assert BPE.unknown("ж☃") == []
    for tokenizer in (characters, words, BPE):
        assert tokenizer.encode("") == [tokenizer.bos_token, tokenizer.eos_token] and tokenizer.decode([]) == ""


def test_what_is_unknown_comes_with_its_total() -> None:
    words, characters = train("word", ["a cat"]), train("char", ["a cat"])
    assert words.parts("a dog, a cat") == ["a", "dog", ",", "a", "cat"] and characters.parts("a dog") == list("a dog")
    assert train("bpe", ["a cat"]).parts("a dog") == []
    assert words.unknown_note(1234, 56789) == "1,234 of 56,789 words (2.2 %) are not in the vocabulary and become <unk>"
    assert characters.unknown_note(1, 9999) == "1 of 9,999 characters (less than 0.1 %) are not in the vocabulary and are left out"


def test_sizes() -> None:
    assert train("bpe", PROSE * 9, 300).N_V == 300
    assert train("word", ["a a a b b c d"], 6).encode("a b c", ends=False) == [0, 1, 2]  # a, b, <unk>, mask, bos, eos
    assert train("char", ["aaabbc"], 5).unknown("abc") == ["c"]


@pytest.mark.parametrize("kind", KINDS)
def test_hugging_face_reads_it_unchanged(kind: str, tmp_path) -> None:
    tokenizer = train(kind, PROSE, 300)
    theirs = fast(tokenizer, tmp_path)
    for text in (*PROSE, EXAMPLE):
        assert theirs(text)["input_ids"] == tokenizer.encode(text)
        assert theirs.decode(tokenizer.encode(text), skip_special_tokens=True) == tokenizer.decode(tokenizer.encode(text))
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode_many(PROSE) == tokenizer.encode_many(PROSE) and again.kind == kind


def test_gpt2_s_own_vocabulary_gives_gpt2_s_ids(tmp_path) -> None:
    if not (SHARED / "data/tok/encoder.json").exists():
        pytest.skip("GPT-2's vocabulary is not beside this checkout, in ../shared/data/tok")
    ours = from_files(SHARED / "data/tok/encoder.json", SHARED / "data/tok/vocab.bpe")
    theirs = transformers.GPT2Tokenizer(vocab=str(SHARED / "data/tok/encoder.json"), merges=str(SHARED / "data/tok/vocab.bpe"))
    samples = [
        *PROSE,
        EXAMPLE,
        "  leading",
        "trailing  ",
        "tabs\t\tand\r\nlines\n",
        "I'll we've don't",
        "1234 5,678.90",
        "\x00\x7f",
        "ﬁ ﷺ 👩‍🚀",
    ]
    for text in samples:
        assert ours.encode(text, ends=False) == theirs(text)["input_ids"], text
        assert ours.decode(ours.encode(text)) == text
    assert ours.N_V == 50257 + 3


@given(st.text())
def test_gpt2_s_vocabulary_on_any_text(text: str) -> None:
    if not (SHARED / "data/tok/encoder.json").exists():
        pytest.skip("GPT-2's vocabulary is not beside this checkout, in ../shared/data/tok")
    ours, theirs = _gpt2()
    assert ours.encode(text, ends=False) == theirs.encode(text).ids and ours.decode(ours.encode(text)) == text


_PAIR: list = []


def _gpt2() -> tuple:
    if not _PAIR:
        files = SHARED / "data/tok/encoder.json", SHARED / "data/tok/vocab.bpe"
        peer = transformers.GPT2Tokenizer(vocab=str(files[0]), merges=str(files[1]))
        _PAIR.extend((from_files(*files), peer.backend_tokenizer))
    return _PAIR[0], _PAIR[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"tokenizer.json: not a tokenizer.json"),
        ("{}", r"tokenizer.json: not a tokenizer.json"),
        (None, r"tokenizer.json: cannot be read: No such file or directory"),
    ],
)
def test_files_that_are_not(tmp_path, content: str | None, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(path)


def test_a_tokenizer_of_others_without_our_special_tokens(tmp_path) -> None:
    data = json.loads(BPE.core.to_str())
    data["added_tokens"] = []
    data["post_processor"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    message = r"tokenizer.json: tokenizer: expected a vocabulary with <mask>, <bos> or <eos>, or their IDs; got none of them"
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(tmp_path / "tokenizer.json")
    none = Tokenizer.load(tmp_path / "tokenizer.json", special=SpecialTokens(None, None, None))
    assert none.encode("the cat") == BPE.encode("the cat", ends=False), "a vocabulary may have none, if one says so"
    theirs = Tokenizer.load(tmp_path / "tokenizer.json", special=SpecialTokens(mask=None, bos=65, eos=66))
    assert theirs.special_tokens == SpecialTokens(None, 65, 66) and theirs.N_V == BPE.N_V - 3
    assert theirs.encode("the cat") == [65, *BPE.encode("the cat", ends=False), 66]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_found_by_name_wherever_they_stand(kind: Kind, tmp_path) -> None:
    ours = train(kind, PROSE, 300)
    other = rearranged(ours, bos=3, eos=5)
    assert other.special_tokens == SpecialTokens(mask=None, bos=3, eos=5) and other.kind == kind and other.N_V == ours.N_V - 1
    for text in (*PROSE, EXAMPLE, ""):
        x = other.encode(text)
        assert x[0] == 3 and x[-1] == 5 and other.encode(text, ends=False) == x[1:-1]
        assert other.decode(x) == ours.decode(ours.encode(text)) and other.decode(iter(x)) == other.decode(x[1:-1])
        assert [other.token(one) for one in x] == [ours.token(one) for one in ours.encode(text)]
        assert other.unknown(text) == ours.unknown(text)
    assert (other.token(3), other.token(5)) == ("<bos>", "<eos>")
    with pytest.raises(ValueError, match="mask_token: this vocabulary has none"):
        _ = other.mask_token
    other.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.special_tokens == other.special_tokens and again.encode_many(PROSE) == other.encode_many(PROSE)


def test_special_tokens_by_their_ids() -> None:
    """GPT-2 has one token for both ends and no mask; BERT calls its own by other names."""
    core = BPE.core
    one_end = Tokenizer(core, special=SpecialTokens(mask=None, bos=256, eos=256))
    assert one_end.encode("a") == [256, *BPE.encode("a", ends=False), 256] and one_end.decode(one_end.encode("a")) == "a"
    assert one_end.digest() != BPE.digest() == Tokenizer(core, special=BPE.special_tokens).digest()
    without_bos = Tokenizer(core, special=SpecialTokens(mask=None, bos=None, eos=256))
    assert without_bos.encode("a") == [*BPE.encode("a", ends=False), 256]
    assert BPE.decode([BPE.mask_token, *BPE.encode("a")]) == "a"
    with pytest.raises(ValueError, match=r"special: expected token IDs of the vocabulary, from 0 to 319, got 320"):
        Tokenizer(core, special=SpecialTokens(0, 1, 320))


def test_a_vocabulary_may_have_gaps() -> None:
    data = json.loads(train("char", ["abc"]).core.to_str())
    for added in data["added_tokens"]:
        added["id"] += 10
    for token in ("<mask>", "<bos>", "<eos>"):
        data["model"]["vocab"][token] = {"<mask>": 13, "<bos>": 14, "<eos>": 15}[token]
    gaps = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(data)))
    assert gaps.special_tokens == SpecialTokens(13, 14, 15) and gaps.N_V == 16 and gaps.encode("cab") == [14, 2, 0, 1, 15]


WRITTEN = (  # by the version before special tokens had explicit IDs
    '{"version":"1.0","truncation":null,"padding":null,"added_tokens":['
    '{"id":3,"content":"<mask>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},'
    '{"id":4,"content":"<bos>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},'
    '{"id":5,"content":"<eos>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],'
    '"normalizer":null,"pre_tokenizer":null,"post_processor":{"type":"TemplateProcessing","single":['
    '{"SpecialToken":{"id":"<bos>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<eos>","type_id":0}}],'
    '"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],'
    '"special_tokens":{"<bos>":{"id":"<bos>","ids":[4],"tokens":["<bos>"]},"<eos>":{"id":"<eos>","ids":[5],"tokens":["<eos>"]}}},'
    '"decoder":{"type":"Fuse"},"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,'
    '"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{"a":0,"b":1,"c":2},"merges":[]}}'
)


def test_files_of_earlier_versions_load(tmp_path) -> None:
    (tmp_path / "tokenizer.json").write_text(WRITTEN)
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (tokenizer.kind, tokenizer.N_V, tokenizer.special_tokens) == ("char", 6, SpecialTokens.last(6))
    assert tokenizer.encode("cab") == [4, 2, 0, 1, 5] and tokenizer.digest() == train("char", ["abc"]).digest()


@pytest.mark.parametrize(
    ("kind", "texts", "size", "message"),
    [
        ("sentence", ["a"], None, r"tokenizer: expected char, word, bpe, got 'sentence'"),
        ("bpe", ["a"], 100, r"vocab_size: expected at least 259 for bpe, .*got 100"),
        ("char", [], None, r"tokenizer: expected some text to train on, got none"),
        ("word", ["  "], None, r"tokenizer: expected some words to train on, got none"),
    ],
)
def test_training_that_cannot_be(kind: str, texts: list[str], size: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(kind, texts, size)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["W ER1 D", "B UH1 K S"], "symbols"),
        (["h e l l o", "w o r l d"], "symbols"),
        (["3 March 2026", "the 4th of July 1976"], "phrases"),
        (["word", "another"], "phrases"),
        (["a man in a red shirt is running .", "ein mann in einem roten hemd läuft ."], "sentences"),
        (["今天天气很好我们去公园散步吧好不好啊", "机器学习是人工智能的一个重要分支领域"], "unspaced"),
        ([" ", ""], "phrases"),
        ([], "phrases"),
    ],
)
def test_what_texts_are_made_of(texts: list[str], kind: str) -> None:
    assert kind_of_text(texts) == kind


def test_a_vocabulary_of_words_is_bounded() -> None:
    texts = [f"w{i} w{i}" for i in range(40_000)]
    assert train("word", texts).N_V == 30_000


def test_the_size_of_a_vocabulary_of_byte_pairs_follows_the_text() -> None:
    assert size_for_text(["short"]) == 1024
    assert size_for_text(["é" * 700_000]) == 2000
    assert size_for_text("x" * 7000 for _ in range(10**9)) == 8192  # it stops to read when it knows


def test_words_in_lower_case() -> None:
    tokenizer = train("word", ["The cat saw THE dog", "the Dog"], lowercase=True)
    assert tokenizer.encode("THE CAT") == tokenizer.encode("the cat")
    assert sorted(tokenizer.ordinary()) == ["<unk>", "cat", "dog", "saw", "the"]
    assert tokenizer.unknown("A Dog") == ["a"] and tokenizer.kind == "word"
    with pytest.raises(ValueError, match="lowercase: expected a vocabulary of words, got char"):
        train("char", ["a"], lowercase=True)
