"""Large batches in chunks, over cores, devices and processes."""
