"""A step of training, whatever is trained: its batches, begin and end, loss, photographs."""
