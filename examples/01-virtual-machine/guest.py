"""A stand-in for a virtual machine: runs until its power button (SIGTERM) is pressed, then takes its time.

`guest.py [SECONDS]`: how long its shutdown takes; without a number it never shuts down by itself.
"""

import signal
import sys
import threading

pressed = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: pressed.set())
print("booted", flush=True)
pressed.wait()
print("shutting down", flush=True)
never = threading.Event()
never.wait(float(sys.argv[1]) if len(sys.argv) > 1 else None)
print("clean", flush=True)
