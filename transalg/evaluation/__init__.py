"""How good a trained model is, on data it was not trained on."""
