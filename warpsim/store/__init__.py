"""The Zarr store of a sweep: layout, tiles and their status, verification."""
