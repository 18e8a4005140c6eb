"""Makes one cloud-optimised GeoTIFF. Each pixel is reprojected once, packed once, and then only moved.

Two threads reproject and pack cell by cell into one file, and into others the overviews that are some of the cell's
pixels; those left are made picture by picture, and the packed blocks are put in the order of a cloud-optimised GeoTIFF
as they are. Memory depends on a cell, not on the raster.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import rasterio
from rio_cogeo.cogeo import cog_validate

from flows.handlers.context import Context
from flows.handlers.errors import HandlerError
from flows.handlers.raster import overviews, pictures
from flows.handlers.raster.assembly import Assembled, assemble
from flows.handlers.raster.copying import at_hand
from flows.handlers.raster.declarations import CogResult, CreateCogParams, MakingParams
from flows.handlers.raster.description import statistics_of, store_product
from flows.handlers.raster.folding import folded
from flows.handlers.raster.grid import Place
from flows.handlers.raster.inspect import crs_of
from flows.handlers.raster.tiff_writing import TILED, read_all
from flows.handlers.raster.views import ProductHeader, View, viewed

THREADS = 2
# Of the whole work: reprojecting, then overviews; what is left is putting together, describing and storing.
PIXELS_SHARE, OVERVIEWS_SHARE = 0.65, 0.25


def create(params: CreateCogParams, context: Context) -> CogResult:
    """Reproject and optimise the source, check the product strictly, and put it into the silver zone."""
    path = context.workdir / "cog.tif"
    made, seen = make(params, path, context)
    with rasterio.open(path, driver="GTiff") as raster:
        statistics = statistics_of(raster, seen.tallies)
    return store_product(path, made, statistics, params.source, context)


def make(params: MakingParams, path: Path, context: Context) -> tuple[Assembled, pictures.Written]:
    """Write the product of the whole source."""
    with pictures_in(context.workdir) as raster:
        product, seen = write_raster(params, raster, None, THREADS, context)
        return finish(seen.paths, product, path, THREADS, context), seen


@contextmanager
def pictures_in(workdir: Path) -> Iterator[Path]:
    """Where a raster may be written, its overviews beside it; all of them are gone afterwards."""
    raster = workdir / "picture.tif"
    try:
        yield raster
    finally:
        for picture in workdir.glob(f"{raster.stem}*{raster.suffix}"):
            picture.unlink()


def write_raster(
    params: MakingParams, path: Path, place: Place | None, threads: int, context: Context, *, is_part: bool = False
) -> tuple[ProductHeader, pictures.Written]:
    """Write the product's pixels at full size, of all of it or of one window, and the overviews that come with them.

    A part has those of the whole, in blocks of the same sides.
    """
    source = at_hand(params.source, params.reading, context)
    with ExitStack() as held:
        views = _views(params, place, threads, source, held)
        whole = views[0].product
        place = place or (0, 0, whole.width, whole.height)
        product = whole.part(*place)
        readers = [_shifted(view.read, place) for view in views]
        layout = whole if is_part else product
        paths = [pictures.path_of(path, number) for number in range(layout.overviews_of_cells + 1)]
        told = _reporting_share(context, 0.0, PIXELS_SHARE)
        return product, pictures.write(paths, product, layout.block_sides, views[0].source, readers, told, context)


def _views(params: MakingParams, place: Place | None, threads: int, source: Context, held: ExitStack) -> list[View]:
    """Open a view for each thread, on a source whose mask and nodata agree."""
    first = held.enter_context(viewed(params, source))
    if first.product.folds_mask and first.product.is_warped:
        whole = (0, 0, first.product.width, first.product.height)
        crs = crs_of(first.source, params.source_crs, params.source)
        source = folded(first, place or whole, crs, source)
        first = held.enter_context(viewed(params, source))
    return [first, *(held.enter_context(viewed(params, source)) for _ in range(threads - 1))]


def _shifted(read: pictures.Reader, origin: Place) -> pictures.Reader:
    """Return a reader that takes a window's places as places of the whole."""
    first_column, first_row, *_ = origin
    return lambda place: read((place[0] + first_column, place[1] + first_row, *place[2:]))


def finish(paths: Sequence[Path], product: ProductHeader, path: Path, threads: int, context: Context) -> Assembled:
    """Add the overviews that are missing, put all in order, and check it strictly."""
    told = _reporting_share(context, PIXELS_SHARE, OVERVIEWS_SHARE)
    all_pictures = overviews.complete(paths, product, threads, told, context)
    context.raise_if_stopping()
    context.progress(PIXELS_SHARE + OVERVIEWS_SHARE, "putting together")
    made = assemble(all_pictures, path, context)
    _check(path)
    return made


def _check(path: Path) -> None:
    """Refuse to hand out what is not strictly a cloud-optimised GeoTIFF, by its tags and as readers judge it."""
    valid, errors, found = cog_validate(path, strict=True, quiet=True)
    faults = [*errors, *found, *_in_strips(path)]
    if faults or not valid:
        raise HandlerError(f"The product is not a valid cloud-optimised GeoTIFF: {'; '.join(faults)}")


def _in_strips(path: Path) -> list[str]:
    """The pictures that are not tiled by their own tags. rio-cogeo judges by widths, and large pictures only."""
    with path.open("rb") as file:
        found = read_all(file)
    return [f"picture {number} is not tiled" for number, tags in enumerate(found) if not tags.keys() >= TILED]


def _reporting_share(context: Context, begin: float, share: float) -> pictures.Told:
    return lambda fraction: context.progress(begin + share * fraction, f"{fraction:.0%} of the pixels")
