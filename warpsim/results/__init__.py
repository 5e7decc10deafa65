"""What a result is: its variables, its provenance, statistics over its replicates, and the accessor `ds.warpsim`."""
