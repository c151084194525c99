"""Test models live beside the tests and count as user code."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
