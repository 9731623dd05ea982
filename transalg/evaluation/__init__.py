"""The metrics of a trained model on data it was not trained on."""
