"""PyTorch's own operator and layer samples, converted one by one and run in GRAPH_MODE against torch."""
