"""The commands, one module per family. Heavy imports wait inside the functions, so that help is quick."""
