// A point a visible splat, which the geometry shader knows by its number.
void main() {}
