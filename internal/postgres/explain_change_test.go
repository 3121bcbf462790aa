package postgres_test

import (
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// changeSteps are operations of users. They must not scan tables either.
func (b *bulk) changeSteps() []*hot {
	t, ctx, namespace := b.t, b.t.Context(), uuid.New()
	var made job.Job
	d := job.Definition{Name: "made", Schedule: schedule.Spec{Every: "1m"}, Target: job.Target{Kind: "noop"}}
	return []*hot{
		{name: "CreateJob", step: func() {
			var err error
			made, err = b.store.CreateJob(ctx, job.CreateParams{Namespace: namespace, Definition: d, Actor: "ann"})
			require.NoError(t, err)
		}},
		{name: "UpdateJob", step: func() {
			d.Schedule.Every = "2m"
			_, err := b.store.UpdateJob(
				ctx, job.UpdateParams{Namespace: namespace, ID: made.ID, Definition: d, Actor: "ann"},
			)
			require.NoError(t, err)
		}},
		{name: "PauseJob", step: func() {
			_, err := b.store.PauseJob(ctx, job.ChangeParams{Namespace: namespace, ID: made.ID}, "")
			require.NoError(t, err)
		}},
		{name: "ResumeJob", step: func() {
			_, err := b.store.ResumeJob(ctx, job.ChangeParams{Namespace: namespace, ID: made.ID})
			require.NoError(t, err)
		}},
		{name: "ResumePaused", before: func() {
			_, err := b.store.PauseJob(
				ctx, job.ChangeParams{Namespace: namespace, ID: made.ID, Actor: "ann", Until: b.now().Add(time.Hour)}, "",
			)
			require.NoError(t, err)
			b.exec(`UPDATE job SET paused_until = now() WHERE id = $1`, made.ID)
			b.exec(`UPDATE job_pause_end SET resume_at = now()`)
			b.exec(`INSERT INTO job_pause_end
				SELECT partition, now() + interval '1 day', id, namespace_id FROM job WHERE name LIKE 'job-%1'`)
		}, step: func() {
			n, err := b.store.ResumePaused(ctx, allPartitions(), 100)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}, ways: nil},
		{name: "NoPauseEnds", step: func() {
			n, err := b.store.ResumePaused(ctx, allPartitions(), 100)
			require.NoError(t, err)
			require.Zero(t, n)
		}, ways: []string{"job_pause_end by partition resume_at"}},
		{name: "TriggerJob", step: func() {
			_, err := b.store.TriggerJob(ctx, job.ChangeParams{Namespace: namespace, ID: made.ID}, nil)
			require.NoError(t, err)
		}},
		{name: "Job", step: func() { _, err := b.store.Job(ctx, namespace, made.ID); require.NoError(t, err) }},
		{
			name: "JobByName",
			step: func() { _, err := b.store.JobByName(ctx, namespace, "made"); require.NoError(t, err) },
		},
		{
			name: "FinishJobs",
			step: func() { _, err := b.store.FinishJobs(ctx, 1000); require.NoError(t, err) },
			ways: []string{"cursor by partition id", "job by address", "job by end_at"},
		},
		{name: "RemoveJobs", before: func() {
			b.exec(`UPDATE job SET state = 3, finished_at = now() - interval '1 h', keep_finished_for = '1 min'
				WHERE name IN ('job-77', 'job-78')`)
			b.exec(`DELETE FROM run r USING job j WHERE r.job_id = j.id AND j.remove_at IS NOT NULL`)
		}, step: func() {
			n, err := b.store.RemoveJobs(ctx, 1000)
			require.NoError(t, err)
			require.Equal(t, 2, n)
		}, ways: []string{
			"cluster", "cursor by address", "cursor by partition id", "dead_letter by partition job_id", "job by address",
			"job by partition cursor_id", "job by partition id",
			"job by remove_at", "job_version by address", "job_version by partition job_id", "run by partition job_id",
		}},
		{name: "Broken", step: func() { _, _, err := b.store.BrokenCursors(ctx, 1000); require.NoError(t, err) }},
		{name: "DeleteJob", step: func() {
			_, err := b.store.DeleteJob(ctx, job.ChangeParams{Namespace: namespace, ID: made.ID})
			require.NoError(t, err)
		}},
	}
}
