package postgres

// BoundLoads lowers the bounds of loads, so that few jobs are too many.
func (a *API) BoundLoads(rows, sample, cursors int) { a.loads = loadBounds{rows, sample, cursors} }
