"""The tokenizer of a checkpoint from its files, and which of its tokens are mask, bos and eos."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from transalg.hyper import SpecialTokens
from transalg.interop.settings import Settings, read_json
from transalg.tokenization.tokenizer import read_core, vocabulary_size

IDS = "ids"  # a text is token IDs with spaces between them: for a model whose tokenizer nobody can read
NAMES = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "bos_token", "eos_token")
BERT_NAMES = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
PROBES = 100  # tokens that are tried as texts


def read_vocabulary(folder: Path, N_V: int, chosen: str | None = None) -> tokenizers.Tokenizer:
    """The tokenizer in a folder, or the one chosen: a file, or `ids`."""
    if chosen == IDS:
        return _ids(N_V)
    core = _untruncated(read_core(chosen)) if chosen else _read(folder)
    where = chosen or folder
    if not core.get_vocab():
        raise ValueError(f"{where}: expected a tokenizer with tokens, got none")
    if vocabulary_size(core) > N_V:
        raise ValueError(f"{where}: the tokenizer has {vocabulary_size(core)} tokens, but the model has N_V = {N_V}: they do not fit")
    return core


def _read(folder: Path) -> tokenizers.Tokenizer:
    settings = Settings(tokenizer_settings(folder), str(folder / "tokenizer_config.json"))
    if (folder / "tokenizer.json").exists():
        return _with_ends_of(_untruncated(read_core(folder / "tokenizer.json")), settings)
    pieces = next((path.name for path in sorted(folder.glob("*.spm")) + sorted(folder.glob("tokenizer.model"))), None)
    if pieces is not None:
        raise ValueError(
            f"{folder}: has the tokenizer as {pieces}, which is SentencePiece's and not read here; --tokenizer FILE names a tokenizer.json, "
            f"--tokenizer {IDS} reads texts as token IDs"
        )
    try:
        if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
            return _with_ends_of(_byte_pairs(folder, settings), settings)
        if (folder / "vocab.txt").exists():
            return _word_pieces(folder / "vocab.txt", settings)
        if (folder / "vocab.json").exists():
            return _with_ends_of(_characters(folder / "vocab.json", settings), settings)
    except ValueError:
        raise
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{folder}: not a vocabulary: {str(error).splitlines()[0]}") from error
    raise ValueError(
        f"{folder}: expected tokenizer.json, or vocab.json and merges.txt, or vocab.txt; got none of them. "
        f"--tokenizer FILE names a tokenizer.json, --tokenizer {IDS} reads texts as token IDs"
    )


def _untruncated(core: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Without what a file may say about the length of texts."""
    core.no_truncation()
    core.no_padding()
    return core


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json and special_tokens_map.json say, the first before the second."""
    files = [folder / name for name in ("special_tokens_map.json", "tokenizer_config.json")]
    values: dict[str, Any] = {}
    for path in files:
        values |= read_json(path) if path.exists() else {}
    for name in NAMES:
        if isinstance(values.get(name), dict):  # a token with its options
            values[name] = values[name].get("content")
    return values


def _with_ends_of(core: tokenizers.Tokenizer, settings: Settings) -> tokenizers.Tokenizer:
    """tokenizer_config.json may add bos or eos where the post-processor does not."""
    before, after = _ends(core)
    bos, eos = (_named(core, settings, f"{name}_token") for name in ("bos", "eos"))
    add = [token for token in ("bos", "eos") if settings.flag(f"add_{token}_token", False)]
    pieces = (["bos"] if "bos" in add and bos is not None and bos not in before else []) + ["$A"]
    pieces += ["eos"] if "eos" in add and eos is not None and eos not in after else []
    if len(pieces) > 1 and not before and not after:
        tokens = {name: str(core.id_to_token(one)) for name, one in (("bos", bos), ("eos", eos)) if name in pieces and one is not None}
        template = " ".join(tokens.get(piece, piece) for piece in pieces)
        core.post_processor = processors.TemplateProcessing(
            single=template, special_tokens=[(token, core.token_to_id(token)) for token in tokens.values()]
        )
    return core


def _byte_pairs(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """GPT-2's."""
    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    core = tokenizers.Tokenizer(model)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=settings.flag("add_prefix_space", False))
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=False)
    return _add_special(core, settings, {} if any(settings.has(name) for name in NAMES) else {"eos_token": "<|endoftext|>"})


def _word_pieces(path: Path, settings: Settings) -> tokenizers.Tokenizer:
    """BERT's."""
    try:
        words = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected a token in every line, in UTF-8, got other bytes") from error
    named = {name: settings.text(name, default) for name, default in BERT_NAMES.items()}
    if words and named["unk_token"] not in words:
        raise ValueError(f"{path}: expected a line {named['unk_token']}, the token of unknown words, got none")
    model = models.WordPiece(vocab={word: i for i, word in enumerate(words)}, unk_token=named["unk_token"])
    core = tokenizers.Tokenizer(model)
    accents = settings.values.get("strip_accents")
    core.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=settings.flag("do_lower_case", True),
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##")
    core = _add_special(core, settings, BERT_NAMES)
    cls, sep = named["cls_token"], named["sep_token"]
    ends = [(token, core.token_to_id(token)) for token in (cls, sep)]
    if all(one is not None for _, one in ends):
        core.post_processor = processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0", pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1", special_tokens=ends
        )
    return core


def _characters(path: Path, settings: Settings) -> tokenizers.Tokenizer:
    """A vocabulary of characters and special tokens, without merges."""
    vocabulary = read_json(path)
    special = {settings.values.get(name) for name in NAMES}
    for token, one in vocabulary.items():
        if not isinstance(one, int) or (len(token) != 1 and token not in special):
            raise ValueError(
                f"{path}: expected characters and their IDs where there is no merges.txt, got {token!r}: {json.dumps(one)[:20]}"
            )
    unknown = settings.values.get("unk_token")
    core = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=unknown if unknown in vocabulary else None))
    core.decoder = decoders.Fuse()
    return _add_special(core, settings, {})


def _ids(N_V: int) -> tokenizers.Tokenizer:
    core = tokenizers.Tokenizer(models.WordLevel(vocab={str(i): i for i in range(N_V)}, unk_token=None))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return core


def _add_special(core: tokenizers.Tokenizer, settings: Settings, defaults: dict[str, str]) -> tokenizers.Tokenizer:
    """Special tokens that the vocabulary has; a name that it lacks is not added, for the model has no row for it."""
    for name in NAMES:
        token = settings.text(name, defaults.get(name, ""))
        if token and core.token_to_id(token) is not None:
            core.add_special_tokens([AddedToken(token, special=True, normalized=False)])
    return core


def _ends(core: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """The token IDs that the post-processor puts before a text and after it."""
    for text in _probes(core):
        try:
            inside, around = core.encode(text, add_special_tokens=False).ids, core.encode(text).ids
        except Exception:  # the library raises Exception itself, for a word that the vocabulary lacks
            continue
        if inside:
            start = next(i for i in range(len(around) - len(inside) + 1) if around[i : i + len(inside)] == inside)
            return around[:start], around[start + len(inside) :]
    return [], []


def _probes(core: tokenizers.Tokenizer) -> Iterator[str]:
    """Texts of which the vocabulary may have some token."""
    yield "a"
    special = {token.content for token in core.get_added_tokens_decoder().values()}
    ordinary = sorted((one, token) for token, one in core.get_vocab().items() if token not in special)
    yield from (str(core.decode([one])) or token for one, token in ordinary[:PROBES])


def _named(core: tokenizers.Tokenizer, settings: Settings, name: str) -> int | None:
    token = settings.text(name, "")
    one: int | None = core.token_to_id(token) if token else None
    return one


def special_tokens(
    core: tokenizers.Tokenizer, folder: Path, config: Settings, generation: Settings, N_V: int, *, pairs: bool, continues: bool
) -> SpecialTokens:
    """mask, bos and eos: what the post-processor adds to a text, and what config.json names.

    `pairs`: x of an encoder–decoder begins with what config.json says, z with nothing. `continues`: a text that is continued ends with eos only
    where the model writes it.
    """
    settings = Settings(tokenizer_settings(folder), str(folder / "tokenizer_config.json"))
    before, after = _ends(core)
    if len(before) > 1 or len(after) > 1:
        raise ValueError(
            f"{folder}: expected a tokenizer that puts at most one token before a text and one after it; got {before} and {after}"
        )

    def known(ids: list[int]) -> list[int]:
        return [one for one in ids if 0 <= one < N_V and core.id_to_token(one) is not None]

    named_eos = [one for one in (_named(core, settings, "eos_token"),) if one is not None]
    listed = known(generation.token_ids("eos_token_id") or config.token_ids("eos_token_id"))
    eos = after or [one for one in named_eos if not listed or one in listed] or listed
    bos = before
    if pairs:
        bos = known(config.token_ids(config.any_of("decoder_start_token_id", "bos_token_id")))
        if not bos:
            raise config.wrong("decoder_start_token_id", "the token that x begins with", None)
        if before not in ([], bos):
            raise ValueError(
                f"{folder}: expected a tokenizer that puts {bos[0]} before a text, with which x begins, or nothing; got {before[0]}"
            )
    mask = _named(core, settings, "mask_token")
    if mask is None and not pairs and not continues:
        mask = core.token_to_id(BERT_NAMES["mask_token"])
    return SpecialTokens(mask, bos[0] if bos else None, eos[0] if eos else None, not pairs or bool(before), _never(config, generation, N_V))


def _never(config: Settings, generation: Settings, N_V: int) -> tuple[int, ...]:
    """Tokens that must not be written: the single ones of bad_words_ids."""
    for settings in (generation, config):
        words = settings.values.get("bad_words_ids")
        if isinstance(words, list):
            singles = {word[0] for word in words if isinstance(word, list) and len(word) == 1 and isinstance(word[0], int)}
            return tuple(sorted(one for one in singles if 0 <= one < N_V))
    return ()
