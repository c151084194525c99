"""Which modules OUT/verify.py is made of. None of them may import torch, or of ms_port anything but each other."""

PARTS = ("judge", "noise", "device", "players", "updates", "observe", "standalone")
