"""What a connection's events mean to the exchange. Pure, one file per protocol."""
