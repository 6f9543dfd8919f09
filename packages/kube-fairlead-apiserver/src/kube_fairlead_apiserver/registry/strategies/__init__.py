"""The rules of each built-in kind, a file per family. `builtin.STRATEGIES` is the one table that names them all."""
