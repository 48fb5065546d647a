"""How a colour looks to a reader who lacks one kind of cone, and how far apart two colours look."""

import numpy as np

from labkit.figures.colours import linear_rgb

# Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency,
# IEEE TVCG 15 (2009), severity 1.0; for linear RGB.
SEEN = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# IEC 61966-2-1 (sRGB): linear RGB to CIE XYZ; white is D65.
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, vision="normal"):
    """CIELAB coordinates of a colour as that reader sees it."""
    light = np.clip(np.asarray(SEEN[vision]) @ linear_rgb(colour), 0, 1)
    x, y, z = (TO_XYZ @ light) / TO_XYZ.sum(axis=1)
    fx, fy, fz = (v ** (1 / 3) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def distance(one, other, vision="normal"):
    """CIE 1976 colour difference; 2.3 is just noticeable."""
    return float(np.linalg.norm(lab(one, vision) - lab(other, vision)))
