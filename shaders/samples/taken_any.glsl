// <taken>: of the first draw, whose depth test keeps the nearest splat of each sample.
uint taken(uint accepting) { return accepting; }
