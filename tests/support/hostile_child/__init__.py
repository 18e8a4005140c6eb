"""A taken-over GDAL: named attempts to get out of a try's process, by class, made by a handler that obeys the file."""
