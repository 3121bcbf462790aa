package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLabelsSkipThroughTheirIndex, whatever the statistics say.
func TestLabelsSkipThroughTheirIndex(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE job_label SET (autovacuum_enabled = false)`)
	b.shared(2_000)
	namespace := b.listed(1)[0].Namespace
	b.exec(`INSERT INTO job_label SELECT namespace_id, 'team', 't' || id, id FROM job`)
	for name, c := range map[string]struct {
		read func() error
		want []string
	}{
		"keys": {func() error {
			_, _, err := b.store.Labels(t.Context(), namespace)
			return err
		}, []string{
			"job_label by namespace_id", "job_label by namespace_id key", "job_label by namespace_id key value",
		}},
		"values": {func() error {
			_, _, err := b.store.LabelValues(t.Context(), namespace, "team", "t")
			return err
		}, []string{"job_label by namespace_id key value"}},
	} {
		sent := r.during(func() { require.NoError(t, c.read()) })
		for _, statistics := range []string{"as they are", "analysed"} {
			require.Equal(t, c.want, b.explain(sent, "force_custom_plan"), "%s, %s", name, statistics)
			b.exec(`ANALYZE job_label`)
		}
	}
}
