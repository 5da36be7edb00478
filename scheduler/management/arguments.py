"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import math


def interval(text: str) -> float:
    """Seconds between 0.05 and one hour."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.05 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.05 to 3600")
    return seconds
