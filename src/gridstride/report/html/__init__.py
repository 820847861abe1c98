"""Reports as one HTML file each: no request to anywhere, no script, light and dark, readable at any width, by keyboard and by ear.

`page.py` renders a template of `templates/`; `base.html` is the page around all of them and `parts.html` what they share: tables with captions,
figures, numbers with their marks. Pictures are SVG: `roofline_svg.py`, `timeline_svg.py`, `occupancy_svg.py`.
"""
