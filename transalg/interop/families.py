"""The families that can be read and written, in one table; and which of them a checkpoint is."""

from collections.abc import Collection

from transalg.interop.bert import BERT_BARE, BERT_CLASSES, BERT_MASKED
from transalg.interop.family import Family
from transalg.interop.gpt2 import GPT2
from transalg.interop.llama import GEMMA, LLAMA, MISTRAL, NEOX, QWEN2, QWEN3
from transalg.interop.marian import BLENDERBOT, MARIAN, PEGASUS
from transalg.interop.settings import Settings, shown

FAMILIES = (
    GPT2,
    BERT_MASKED,
    BERT_CLASSES,
    BERT_BARE,
    MARIAN,
    PEGASUS,
    BLENDERBOT,
    LLAMA,
    MISTRAL,
    QWEN2,
    QWEN3,
    GEMMA,
    NEOX,
)


def family_of(config: Settings, names: Collection[str] = ()) -> Family:
    """The family that config.json names; where it names none, the one that the tensors' names tell."""
    known = ", ".join(dict.fromkeys(family.model_type for family in FAMILIES))
    candidates = list(FAMILIES)
    if config.has("model_type"):
        model_type = config.text("model_type")
        candidates = [family for family in FAMILIES if family.model_type == model_type]
        if not candidates:
            raise ValueError(
                f"{config.where}: model_type: expected one of {known}, got {shown(model_type)}: this architecture is not supported"
            )
    architectures = config.values.get("architectures")
    if isinstance(architectures, list) and architectures:
        for family in candidates:
            if architectures[0] in family.architectures:
                return family
        heads = ", ".join(dict.fromkeys(one for family in candidates for one in family.architectures))
        raise ValueError(
            f"{config.where}: architectures: expected one of {heads}, got {shown(architectures[0])}: this head is not supported"
        )
    for family in candidates:
        if {family.marker, family.marker.removeprefix(family.prefix), family.prefix + family.marker} & {*names}:
            return family
    if len(candidates) == 1:
        return candidates[0]
    raise ValueError(f"{config.where}: model_type, architectures: expected a model of {known}, got neither")
