"""What a training leaves behind, while it lasts and after it."""
