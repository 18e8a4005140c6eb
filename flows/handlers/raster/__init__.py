"""Rasters. `declarations` is light; `inspect` and `cog` are the files that know GDAL."""
