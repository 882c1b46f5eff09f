"""A trained scene as one HTML file: compact data, and a viewer of plain JavaScript that draws it
with WebGL2."""
