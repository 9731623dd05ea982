"""Tokenizers of others: the same token IDs as theirs on 1,000 random Unicode strings, and the special tokens that their files name."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from transalg.hyper import SpecialTokens
from transalg.interop.settings import Settings
from transalg.interop.vocabulary import IDS, read_vocabulary, special_tokens
from transalg.tokenization import Tokenizer as OurTokenizer

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")

TEXT = ["The cat sat on the mat, naïve Ünd 1234!", "a dog's log — café", "the the the cat cat 猫 です 🙂🙃"] * 3
ALPHABETS = (
    "abcdefghij THE cat .,!?'\"-()",
    "äöüßéèñçøå ÀÁÂ ıİ ﬁ ǆ",
    "猫です日本語한국어 ไทย عربي עברית",
    "🙂🙃👩‍👩‍👧🇩🇪 \u200b\u200d\ufeff\u00a0\u2028\u3000",
    "\t\n\r  \x00\x07\x1b",
    "e\u0301o\u0308 a\u0327 ½²™€∑∞≈",
)


def texts(count: int = 1000) -> list[str]:
    draw = random.Random(0)
    everything = "".join(ALPHABETS)
    return ["".join(draw.choices(draw.choice((*ALPHABETS, everything)), k=draw.randint(1, 23))) for _ in range(count)]


def gpt2_files(folder: Path) -> None:
    """vocab.json and merges.txt."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False)
    core.train_from_iterator(TEXT, trainer)
    core.model.save(str(folder))
    _config(folder, tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>")


def bert_files(folder: Path) -> None:
    """vocab.txt, lower case."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghijklmnopqrstuvwxyz0123456789.,!?'猫",
        "the",
        "cat",
        *(f"##{one}" for one in "abcdefghijklmnst"),
    ]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    _config(folder, tokenizer_class="BertTokenizer", do_lower_case=True)


def llama_files(folder: Path) -> None:
    """tokenizer.json as Llama has it: bytes for unknown characters, bos before a text; truncation and padding, which do not count."""
    core = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    core.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=330, special_tokens=pieces, show_progress=False))
    data = json.loads(core.to_str())
    data["added_tokens"] = [one for one in data["added_tokens"] if one["id"] < 3]
    core = Tokenizer.from_str(json.dumps(data))
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    core.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    core.enable_truncation(5)
    core.enable_padding(length=7)
    core.save(str(folder / "tokenizer.json"))
    _config(folder, tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def qwen_files(folder: Path) -> None:
    """tokenizer.json of byte pairs with added tokens, one of them ordinary, and nothing around a text."""
    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.NFC()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    core.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=290, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    )
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<|im_end|>"])
    core.add_tokens([AddedToken("  ", normalized=False)])
    core.save(str(folder / "tokenizer.json"))
    _config(folder, tokenizer_class="PreTrainedTokenizerFast", eos_token="<|im_end|>")


def _config(folder: Path, **values: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


FILES: dict[str, tuple[Callable[[Path], None], str, SpecialTokens]] = {
    "gpt2": (gpt2_files, "gpt2", SpecialTokens(None, None, 0)),
    "bert": (bert_files, "bert", SpecialTokens(4, 2, 3)),
    "llama": (llama_files, "llama", SpecialTokens(None, 1, 2)),
    "qwen": (qwen_files, "qwen2", SpecialTokens(None, None, 290)),
}


@pytest.mark.parametrize("name", FILES)
def test_token_ids_of_random_unicode(name: str, tmp_path: Path) -> None:
    write, model_type, expected = FILES[name]
    write(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    core = read_vocabulary(tmp_path, 1000)
    empty = Settings({})
    special = special_tokens(core, tmp_path, empty, empty, 1000, pairs=False, continues=name != "bert")
    assert special == expected
    ours = OurTokenizer(core, special=special, N_V=1000)
    some = texts()
    ends = [ours.with_ends(ids, eos=name == "bert") for ids in ours.encode_many(some, ends=False)]
    assert ends == theirs(some, truncation=False, padding=False)["input_ids"]
    assert len({tuple(ids) for ids in ends}) > 300, "the texts differ"


def special_of(folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None, **options: bool) -> SpecialTokens:
    core = read_vocabulary(folder, 1000)
    chosen = {"pairs": False, "continues": True} | options
    return special_tokens(core, folder, Settings(config), Settings(generation or {}), 1000, **chosen)


def test_ids_that_the_vocabulary_lacks_are_none(tmp_path: Path) -> None:
    """Some config.json name eos = 50256 whatever the vocabulary."""
    gpt2_files(tmp_path)
    _config(tmp_path)
    assert special_of(tmp_path, {"eos_token_id": 50256}) == SpecialTokens(None, None, None)
    assert special_of(tmp_path, {"eos_token_id": [50256, 7, 8]}) == SpecialTokens(None, None, 7)
    assert special_of(tmp_path, {"eos_token_id": 7}, {"eos_token_id": 9}).eos == 9, "what generation_config.json says comes first"


def test_bos_is_added_where_tokenizer_config_says_so(tmp_path: Path) -> None:
    qwen_files(tmp_path)
    _config(tmp_path, bos_token="<|im_end|>", eos_token="<|im_end|>", add_bos_token=True)
    assert special_of(tmp_path, {}) == SpecialTokens(None, 290, 290)
    _config(tmp_path, bos_token="<|im_end|>", eos_token="<|im_end|>", add_bos_token=False)
    assert special_of(tmp_path, {}) == SpecialTokens(None, None, 290)


def test_of_pairs_x_begins_with_what_config_says_and_z_with_nothing(tmp_path: Path) -> None:
    qwen_files(tmp_path)
    config = {"decoder_start_token_id": 5, "eos_token_id": 3, "bad_words_ids": [[5], [6, 7]]}
    _config(tmp_path)
    special = special_of(tmp_path, config, pairs=True, continues=False)
    assert special == SpecialTokens(None, 5, 3, context_bos=False, never=(5,))
    with pytest.raises(ValueError, match="decoder_start_token_id: expected the token that x begins with, got nothing"):
        special_of(tmp_path, {"eos_token_id": 3}, pairs=True, continues=False)


def test_characters_without_merges(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"<unk>": 0, "</s>": 1, "a": 2, "b": 3, " ": 4}))
    _config(tmp_path, unk_token="<unk>", eos_token="</s>")
    core = read_vocabulary(tmp_path, 5)
    assert core.encode("ab xa").ids == [2, 3, 4, 0, 2] and core.decode([2, 3, 4, 2]) == "ab a"
    (tmp_path / "vocab.json").write_text(json.dumps({"the": 0}))
    with pytest.raises(ValueError, match=r"vocab.json: expected characters and their IDs where there is no merges.txt, got 'the': 0"):
        read_vocabulary(tmp_path, 5)


def test_texts_of_token_ids() -> None:
    ours = OurTokenizer(read_vocabulary(Path(), 11, IDS), special=SpecialTokens(None, None, 7), N_V=11)
    assert ours.encode("10 0 3", ends=False) == [10, 0, 3] and ours.decode([10, 0, 3]) == "10 0 3"
    with pytest.raises(ValueError, match="text: cannot be tokenised"):
        ours.encode("11")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "expected tokenizer.json, or vocab.json and merges.txt, or vocab.txt; got none of them. --tokenizer FILE names"),
        ({"source.spm": "", "vocab.json": "{}"}, "has the tokenizer as source.spm, which is SentencePiece's and not read here"),
        ({"tokenizer.json": "{"}, "not a tokenizer.json"),
        ({"tokenizer.json": '{"model": {"type": "Nothing"}}'}, "not a tokenizer.json"),
        ({"vocab.json": "[]", "merges.txt": "a b"}, "not a vocabulary"),
        (
            {"vocab.txt": "[UNK]\nb\n", "tokenizer_config.json": '{"do_lower_case": "yes"}'},
            'do_lower_case: expected true or false, got "yes"',
        ),
        ({"vocab.txt": "[UNK]\nb\nc\nd\ne\nf\n"}, "the tokenizer has 6 tokens, but the model has N_V = 5: they do not fit"),
    ],
)
def test_what_is_no_tokenizer(files: dict[str, str], said: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        read_vocabulary(tmp_path, 5)
