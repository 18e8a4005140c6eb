"""STAC items and collections: typed, built by pure functions, written as staged JSON. No GDAL, no catalogue here."""
