"""Checkpoints of the Hugging Face Hub, by their names. Needs the extra `hub`."""

import re
from pathlib import Path

FILES = ["*.json", "*.safetensors", "*.txt"]
PICKLES = ["pytorch_model*.bin"]  # where there are no safetensors
NAME = r"[\w.-]+/[\w.-]+|[\w-]+"  # an owner and a model, or a model alone


def download(name: str) -> Path:
    """The folder of a model of this name, from the cache or from the Hub."""
    if not re.fullmatch(NAME, name):
        raise ValueError(f"{name}: there is no such file or folder, and a name of the Hugging Face Hub is OWNER/MODEL")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ValueError(
            f"{name}: there is no such file or folder; to look for it in the Hugging Face Hub, pip install 'transalg[hub]'"
        ) from error
    try:
        folder = Path(snapshot_download(name, allow_patterns=FILES))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*FILES, *PICKLES]))
        return folder
    except Exception as error:  # the Hub, the network and the cache fail in many ways
        reason = re.sub(r"\[Errno -?\d+\] ", "", str(error).splitlines()[0]) if str(error) else type(error).__name__
        raise ValueError(
            f"{name}: there is no such file or folder, and the Hugging Face Hub cannot be asked for it: {reason.rstrip('. ')}. "
            "Without a connection, give the path of a folder that has been downloaded"
        ) from error
