"""Results: their variables, provenance, statistics over replicates, and the accessor `ds.warpsim`."""
