"""Message schemas, and the encoders and decoders that are compiled from them."""
