"""What Gato lives in: environments with experts, captions and prose, and the recording of episodes."""
