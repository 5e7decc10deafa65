"""Results on disk and their description: the schema, the provenance, the Zarr store."""
