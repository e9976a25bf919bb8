# The site of these pages: `make site` (Makefile.am). Of Debian: python3-sphinx, python3-myst-parser.
project = "MPICH-Composite"
copyright = "the MPICH-Composite authors"
extensions = ["myst_parser"]
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "70em", "sidebar_width": "16em"}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 3
# Pages link to sources, which are no part of the site; test/guide/run checks that there is something behind each link.
suppress_warnings = ["ref.myst"]
