package bench

import "io"

func (r *Result) HTML(w io.Writer) error { return nil }
