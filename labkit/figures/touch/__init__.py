"""The timeline that one can touch: HTML of its own, with zoom, and what each bar and arrow is.

page      the HTML, from a trace
page.css  how it looks, under a light and a dark theme
page.js   what answers the mouse and the keys; without it all is there but the zoom
"""

from labkit.figures.touch.page import page

__all__ = ["page"]
