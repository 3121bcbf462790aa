// Package telemetry creates the log, and logs failures that last without flooding it.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLog creates the log: format is text or json, level is debug, info, warn or error.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	o := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // not as a number of nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	o.Level = least
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	default:
		return nil, fmt.Errorf("log format %q: use text or json", format)
	}
}
