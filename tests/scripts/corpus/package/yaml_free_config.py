"""Plain settings: nothing of torch in here, so this file stays as it is."""

EPOCHS, SAMPLES, BATCH, CLASSES, LR, SEED = 2, 18, 6, 3, 0.01, 0
