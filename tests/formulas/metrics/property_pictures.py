"""The table's third part: pictures of people, before and after an edit."""

from __future__ import annotations

import numpy as np
from property_inputs import Rows, pictures
from property_laws import Metric, at_parity, between, copied, order_of

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
]
