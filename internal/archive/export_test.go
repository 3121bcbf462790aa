package archive

// Content is what the hash of a row's content is computed from.
func (r *Run) Content() []byte { return r.content(nil) }

// Content is what the hash of a row's content is computed from.
func (s *Skip) Content() []byte { return s.content(nil) }

// SumOf returns the sum of some rows.
func SumOf[T any, R Row[T]](rows ...T) (s Sum) {
	for i := range rows {
		s.add(R(&rows[i]).Key(), R(&rows[i]).content(nil))
	}
	return s
}

// SetBytes pretends that a part has as many bytes before compression.
func (w *Writer[T, R]) SetBytes(n int64) { w.raw = n }
