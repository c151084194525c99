"""Passes: IR -> IR, one a file; ``ms_port.pipeline`` runs them in order."""
