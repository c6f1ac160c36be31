"""Wire protocols as pure objects: bytes in, events out, bytes to send. One file per protocol."""
