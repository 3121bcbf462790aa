package archive

// SumOf returns the sum of some rows.
func SumOf[T any, R Row[T]](rows ...T) (s Sum) {
	for i := range rows {
		s.Add(R(&rows[i]))
	}
	return s
}

// SetBytes pretends that a part has as many bytes before compression.
func (w *Writer[T, R]) SetBytes(n int64) { w.raw = n }
