"""The one door to GDAL's vector drivers: only those of the accepted formats exist behind it.

GDAL reads which drivers to leave out when it is first loaded, so the others are named here before that happens; the
list is that of the pinned wheel, and a driver that is not on it makes the import fail rather than be there.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ALLOWED: Final = frozenset({"GPKG", "GeoJSON", "ESRI Shapefile", "FlatGeobuf", "CSV"})
_LEFT_OUT: Final = (
    "ADBC,AIVector,AVCBin,AVCE00,AmigoCloud,CSW,Carto,DGN,DXF,EDIGEO,EEDA,ESRIJSON,Elasticsearch,GDALG,GML,GPSBabel,GPX,"
    "GTFS,GeoJSONSeq,GeoRSS,HTTP,Idrisi,JML,JSONFG,KML,LIBKML,LVBAG,MBTiles,MEM,MVT,MapInfo File,MapML,MiraMonVector,"
    "NGW,OAPIF,ODS,OGCAPI,OGR_GMT,OGR_PDS,OGR_VRT,OSM,OpenFileGDB,PCIDSK,PDF,PDS4,PGDUMP,PLSCENES,PMTiles,S57,SQLite,"
    "SXF,Selafin,TopoJSON,VDV,VFK,VICAR,WAsP,WFS,XLSX"
)
_CONFIGURATION: Final = {
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",
    "GDAL_PAM_ENABLED": "NO",
    "OGR_GEOJSON_MAX_OBJ_SIZE": "200",
    # Whatever still asks the network for something is sent to a port where nobody listens.
    "GDAL_HTTP_PROXY": "127.0.0.1:9",
    "GDAL_HTTP_CONNECTTIMEOUT": "1",
    "GDAL_HTTP_TIMEOUT": "1",
}


class DriversLoaded(RuntimeError):
    """GDAL was loaded with drivers that no sender's file may reach."""


os.environ["OGR_SKIP"] = _LEFT_OUT
import pyogrio  # noqa: E402 - only after its drivers are chosen
from pyogrio.errors import DataLayerError, DataSourceError, FieldError, GeometryError  # noqa: E402
from pyogrio.raw import open_arrow  # noqa: E402

del os.environ["OGR_SKIP"]  # it is done with, and other libraries here bring a GDAL of their own
pyogrio.set_gdal_config_options(_CONFIGURATION)
if more := set(pyogrio.list_drivers()) - ALLOWED:
    raise DriversLoaded(f"These drivers are loaded beside the allowed ones: {', '.join(sorted(more))}.")


@contextmanager
def quietly() -> Iterator[None]:
    """Keep GDAL's warnings, which quote the file and name local paths; what matters is refused in our own words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


READ_ERRORS: Final = (DataLayerError, DataSourceError, FieldError, GeometryError)

__all__ = ["ALLOWED", "READ_ERRORS", "open_arrow", "pyogrio", "quietly"]
