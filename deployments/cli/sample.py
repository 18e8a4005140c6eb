"""sample: a file to try things with, for whoever has none at hand."""

from pathlib import Path

import click

from deployments.cli.output import json_option, print_json

WRITTEN = {".tif": "raster", ".tiff": "raster", ".geojson": "vector"}


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--seed", type=click.IntRange(0, 10_000), default=7, show_default=True, help="Another one, other values.")
@json_option
def sample(file: Path, seed: int, as_json: bool) -> None:
    """Write FILE: a raster where it ends in .tif, fields as vectors where it ends in .geojson.

    The same seed writes the same file. A file that is there already is left as it is.
    """
    from deployments import sample as made

    kind = WRITTEN.get(file.suffix.lower())
    if kind is None:
        raise click.BadParameter(f"{file.name!r} ends in none of {', '.join(WRITTEN)}.", param_hint="FILE")
    if not file.parent.is_dir():
        raise click.BadParameter(f"There is no folder {str(file.parent)!r}.", param_hint="FILE")
    if is_new := not file.exists():
        made.write(file, seed) if kind == "raster" else made.write_fields(file, seed)
    size = file.stat().st_size
    if as_json:
        print_json({"file": str(file), "data_type": kind, "size_bytes": size, "written": is_new})
    else:
        told = f"a {kind} of {size / 1e6:.1f} MB" if is_new else "is there already; nothing was written"
        click.echo(f"{file}: {told}" if is_new else f"{file} {told}.")
