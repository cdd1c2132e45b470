"""The table's third part: pictures of people, before and after an edit."""

from __future__ import annotations

import numpy as np
from property_inputs import Rows, classified, pictures
from property_laws import Metric, agrees, at_parity, between, copied, order_of, unchanged

from fairgate.formulas import metrics as m

PIXELS, FACES, IMAGES, CLASSES = (order_of(axis) for axis in ("pixels", "faces", "images", "classes"))


def angle(g: Rows) -> float:
    return m.individual_typology_angle(g.images[0], g.mask, min_fraction=0.0).degrees


PICTURES = [
    Metric(
        "skin_mask",
        pictures(),
        "height pixels",
        lambda g: m.skin_mask(g.images[0]),
        (PIXELS, order_of("height")),
    ),
    Metric(
        "skin_mask, kolkur",
        pictures(),
        "height pixels",
        lambda g: m.skin_mask(g.images[0], rule="kolkur"),
        (PIXELS, order_of("height")),
    ),
    Metric(
        "individual_typology_angle",
        pictures(),
        "",
        angle,
        (PIXELS, copied("pixels"), between(-90.0, 90.0)),
    ),
    Metric(
        "fitzpatrick_type",
        pictures(),
        "",
        lambda g: float(m.fitzpatrick_type(np.nan_to_num(angle(g)))),
        (PIXELS, copied("pixels"), between(1.0, 6.0)),
    ),
    Metric(
        "average_face",
        pictures(number=3),
        "height pixels channels",
        lambda g: m.average_face(g.images).astype(np.int64),
        (
            *(FACES, PIXELS, copied("faces"), order_of("channels")),
            between(lambda g: g.images.min(axis=0), lambda g: g.images.max(axis=0)),
            at_parity(lambda g: g.but(images=g.images[:1].repeat(3, axis=0)), lambda g: g.images[0]),
        ),
    ),
    Metric(
        "delta_ita",
        pictures(number=3),
        "",
        lambda g: m.delta_ita(g.images[:1], g.images).degrees,
        (
            *(PIXELS, between(-180.0, 180.0)),
            agrees("before for after", lambda g: -m.delta_ita(g.images, g.images[:1]).degrees),
        ),
    ),
    Metric(
        "flip_rate",
        classified(),
        "",
        lambda g: m.flip_rate(g.true, g.predicted),
        (
            *(IMAGES, CLASSES, copied("images"), between(0.0, 1.0)),
            unchanged("before for after", lambda _, g: g.but(true=g.predicted, predicted=g.true)),
            agrees("edits as a column", lambda g: m.flip_rate(g.true, g.predicted[:, None])),
            at_parity(lambda g: g.but(predicted=g.true), 0.0),
        ),
    ),
]
