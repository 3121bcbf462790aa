package local_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/doctor"
)

// TestDoctorWithoutDatabase: a database that cannot be reached is a failure like others, also for programs.
func TestDoctorWithoutDatabase(t *testing.T) {
	t.Parallel()
	args := []string{"doctor", "--strict", "--database-url", "postgres://x@127.0.0.1:1/belfry"}
	out, err := run(t, append(args, "-o", "json")...)
	require.ErrorContains(t, err, "doctor found 1 failure and 0 warnings")
	require.Equal(t, 2, cli.ExitCode(err))
	var results []doctor.Result
	require.NoError(t, json.Unmarshal([]byte(out), &results), out)
	require.Equal(t, doctor.Result{
		Group: "database", Check: "connection", Status: doctor.Failure,
		Message: "cannot connect to 127.0.0.1:1 as x: connection refused",
		Hint:    "Check that PostgreSQL runs and that database_url is right.",
	}, results[0])

	out, err = run(t, args...)
	require.Equal(t, 2, cli.ExitCode(err))
	require.Empty(t, err.Error(), "the table ends with the summary")
	require.Regexp(t, `\n\d+ ok, 0 warnings, 1 failure, \d+ not checked\n$`, out)

	_, err = run(t, "doctor", "--config", "/no/such/file")
	require.Equal(t, 2, cli.ExitCode(err), "1 means warnings")
	require.NotEmpty(t, err.Error())
}
