package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/telemetry"
)

func TestTroubleIsBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLog(&out, "info", "json")
	require.NoError(t, err)
	var trouble telemetry.Trouble
	trouble.Worked(log, "claim recovered")
	require.Empty(t, out.String(), "nothing had failed")
	const hour = 1800 // a try each two seconds
	for range hour {
		trouble.Failed(log, "claim failed", errors.New("connection refused"), "loop", "claim")
	}
	trouble.Worked(log, "claim recovered", "loop", "claim")
	trouble.Worked(log, "claim recovered", "loop", "claim")
	trouble.Failed(log, "claim failed", errors.New("connection refused"))

	var failures []int
	var messages []string
	for line := range strings.Lines(out.String()) {
		var l struct {
			Message  string `json:"msg"`
			Failures int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		failures, messages = append(failures, l.Failures), append(messages, l.Message)
	}
	require.Equal(t, []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 1280, 1536, 1792, hour, 1}, failures)
	require.Equal(t, []string{"claim failed", "claim recovered", "claim failed"}, messages[14:],
		"one line when it is over, and then from the start")
}

func TestLogLevelAndFormat(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLog(&out, "warn", "text")
	require.NoError(t, err)
	log.Info("not this")
	log.Warn("this")
	require.Contains(t, out.String(), "level=WARN msg=this")
	require.NotContains(t, out.String(), "not this")
	out.Reset()
	log, err = telemetry.NewLog(&out, "info", "json")
	require.NoError(t, err)
	log.Info("waits", "for", 1500*time.Millisecond)
	require.Contains(t, out.String(), `"for":"1.5s"`)
	_, err = telemetry.NewLog(&out, "loud", "text")
	require.Error(t, err)
	_, err = telemetry.NewLog(&out, "info", "xml")
	require.EqualError(t, err, `log format "xml": use text or json`)
}
