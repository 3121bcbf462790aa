package terminal

import "strconv"

// QuotaHeaders are the headers of a table of quotas.
var QuotaHeaders = []string{"QUOTA", "USED", "LIMIT"}

// QuotaRow is a row of a table of quotas.
func QuotaRow(name string, used, limit *int64) []string {
	row := []string{name, "", "none"}
	for i, n := range []*int64{used, limit} {
		if n != nil {
			row[i+1] = strconv.FormatInt(*n, 10)
		}
	}
	return row
}
