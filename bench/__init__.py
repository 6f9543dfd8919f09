"""Benchmarks of what Fairlead promises: `python -m bench`, or `make bench`.

A benchmark is one file here with a function marked `@benchmark`; being in this folder is enough to be run. It yields
measurements, each with the bar it must meet, if there is one. A missed bar, or a benchmark that fails, is exit code 1.
Nothing of the product belongs here, and no product code imports this.
"""
