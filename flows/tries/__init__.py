"""One try of one handler: in a thread, or in a confined process of its own that opens strangers' files."""
