package archive

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strconv"
)

// Skip is a range of due times that no job of a cursor ran for. The ledger needs it to explain an occurrence that has
// no entry of its own. Its fields are the columns of the files.
type Skip struct {
	Partition int32  `parquet:"partition,dict"`
	Cursor    int64  `parquet:"cursor_id"`
	From      int64  `parquet:"from_due,timestamp(microsecond),delta"`
	To        int64  `parquet:"to_due,timestamp(microsecond),delta"`
	Count     int64  `parquet:"count"`
	Reason    string `parquet:"reason,dict"`
	CreatedAt int64  `parquet:"created_at,timestamp(microsecond),delta"`
	Schedule  string `parquet:"schedule,optional,dict"` // of the cursor, as JSON; null if the cursor was gone
	Missed    string `parquet:"missed,optional,dict"`   // missed policy of the cursor, as JSON
}

// Key identifies the row, as partition|cursor_id|from_due|reason with the time in microseconds.
func (s *Skip) Key() string {
	b := make([]byte, 0, 80)
	b = append(strconv.AppendInt(b, int64(s.Partition), 10), '|')
	b = append(strconv.AppendInt(b, s.Cursor, 10), '|')
	b = append(strconv.AppendInt(b, s.From, 10), '|')
	return string(append(b, s.Reason...))
}

// Compare is the order of rows in files: partition, cursor, first due time and reason, then content.
func (s *Skip) Compare(o *Skip) int {
	c := cmp.Or(
		cmp.Compare(s.Partition, o.Partition), cmp.Compare(s.Cursor, o.Cursor), cmp.Compare(s.From, o.From),
		cmp.Compare(s.Reason, o.Reason),
	)
	if c != 0 {
		return c
	}
	return bytes.Compare(s.Append(nil), o.Append(nil))
}

func (s *Skip) dueTimes() (first, last int64) { return s.From, max(s.From, s.To) }

// Append appends all columns.
func (s *Skip) Append(b []byte) []byte {
	for _, n := range []int64{int64(s.Partition), s.Cursor, s.From, s.To, s.Count, s.CreatedAt} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range []string{s.Reason, s.Schedule, s.Missed} {
		b = appendText(b, text)
	}
	return b
}

// Parse reads what Append appends.
func (s *Skip) Parse(b []byte) error {
	r := reader{b: b}
	*s = Skip{
		Partition: int32(r.number()), Cursor: r.number(), From: r.number(), To: r.number(), Count: r.number(),
		CreatedAt: r.number(), Reason: r.text(), Schedule: r.text(), Missed: r.text(),
	}
	return r.end()
}
