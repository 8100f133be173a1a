# SPDX-License-Identifier: Apache-2.0
"""Pictures with boxes, as squares of one size: `read(folder, layout=..., cut=...)`.

Decoding and cutting is done once and kept beside the files, as for tables: see `cache_folder`.
"""

from __future__ import annotations

import importlib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from joulelab.data import cache_folder, detection_cache, pictures
from joulelab.data.labelled_pictures import split
from joulelab.errors import InputError, unknown

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.data.detection_cache import Tiles
    from joulelab.data.labelled_pictures import Annotations
    from joulelab.data.tiling import Cut

# Each module has sources(folder) and read(folder, classes=...).
LAYOUTS = {"xview": "joulelab.data.xview", "coco": "joulelab.data.coco"}


def read(folder: Path, *, layout: str, cut: Cut, classes: int = 0, threads: int | None = None) -> Tiles:
    """The squares of all pictures of `folder`; of the kinds of object the `classes` most frequent."""
    pictures.needed()
    if layout not in LAYOUTS:
        raise unknown("layout of detection data", layout, LAYOUTS)
    module = importlib.import_module(LAYOUTS[layout])
    key = _key(folder, module, layout=layout, cut=cut, classes=classes)
    name = detection_cache.name(folder, key)
    places = [place / name for place in cache_folder.candidates(folder / "labels")]
    for place in places:
        found = detection_cache.find(place, key=key)
        if found is not None:
            return found
    possible = [place for place in places if cache_folder.writable(place.parent)]
    if not possible:
        raise InputError(
            f"the pieces of {folder} cannot be kept in {' nor in '.join(str(one.parent) for one in places)}",
            cure=f"set {cache_folder.VARIABLE} to a folder of yours with room for the decoded images",
        )
    place = possible[0]

    def make() -> Annotations:
        told: Annotations = module.read(folder, classes=classes)
        return replace(told, pictures=split(told.pictures))

    try:
        detection_cache.build(place, make, key=key, cut=cut, threads=threads)
    except OSError as error:
        raise InputError(
            f"the pieces of {folder} cannot be kept in {place}: {error.strerror or error}",
            cure=f"make room, or set {cache_folder.VARIABLE} to a folder with room for the decoded images",
        ) from error
    found = detection_cache.find(place, key=key)
    assert found is not None, place
    return found


def _key(folder: Path, module: Any, *, layout: str, cut: Cut, classes: int) -> dict[str, Any]:
    """What decides the squares: the state of every file, and how they are cut."""
    states = [(path, path.stat()) for path in module.sources(folder)]
    return {
        "folder": str(folder.resolve()),
        "layout": layout,
        "classes": classes,
        "cut": asdict(cut),
        "version": detection_cache.VERSION,
        "files": [
            [str(path.relative_to(folder)), state.st_size, state.st_mtime_ns] for path, state in states
        ],
    }
