"""Other tools' formats, one file each: checkpoint ↔ hyperparameters, named tensors, tokenizer."""
