"""TiTiler as its own documentation starts it: the baseline of what serving adds and takes away."""

from fastapi import FastAPI
from titiler.core.factory import TilerFactory


def create_app() -> FastAPI:
    """Tiles of whatever file the URL names, asked by nobody in particular."""
    app = FastAPI()
    app.include_router(TilerFactory().router)
    return app
