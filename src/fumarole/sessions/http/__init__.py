"""What HTTP requests mean to the exchange: one file for each kind of question, and `session` for the connection."""
