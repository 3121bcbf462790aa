package archive

import (
	"io"

	"github.com/parquet-go/parquet-go"
)

// WriteRuns writes runs as one Parquet file, in their order.
func WriteRuns(to io.Writer, runs []Run) (err error) {
	defer guard(&err)
	w := parquet.NewGenericWriter[Run](to, parquet.Compression(&parquet.Zstd))
	if _, err := w.Write(runs); err != nil {
		return err
	}
	return w.Close()
}
