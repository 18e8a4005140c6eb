"""Rasters. `declarations` and `tile_declarations` are light, as is all that says it is pure; the others know GDAL."""
