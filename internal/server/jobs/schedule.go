package jobs

import (
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Schedule is written as an object or as one string.
type Schedule struct{ schedule.Spec }

// schemaPrefix is how schemas refer to each other.
const schemaPrefix = "#/components/schemas/"

// Schema is called by huma. The parts have names, so that a generated client has one type for each part
// instead of one for each place where it is used.
func (Schedule) Schema(r huma.Registry) *huma.Schema {
	oneOf := []*huma.Schema{
		textOf("A time is at, FREQ=… an rrule, every 15m is every, all else is cron.", "0 9 * * 1-5"),
		{Ref: schemaPrefix + "ScheduleSpec"},
	}
	examples := []any{"0 9 * * 1-5", map[string]any{"cron": "30 2 * * *", "timezone": "America/New_York"}}
	for name, schema := range map[string]*huma.Schema{
		"Schedule": {OneOf: oneOf, Examples: examples}, "ScheduleSpec": specSchema(),
		"DST": dstSchema(), "Calendar": calendarSchema(),
	} {
		schema.PrecomputeMessages()
		r.Map()[name] = schema
	}
	return &huma.Schema{Ref: schemaPrefix + "Schedule"}
}

// specSchema describes a schedule that is written as an object.
func specSchema() *huma.Schema {
	return &huma.Schema{
		Type: "object", AdditionalProperties: false, Description: "Exactly one of at, every, cron and rrule.",
		Properties: map[string]*huma.Schema{
			"at": textOf("Once, at this time; without an offset it is read in timezone.",
				"2027-01-31T09:00:00Z"),
			"every":     textOf("Each time this long has passed since anchor.", "15m"),
			"cron":      textOf("5 or 6 fields, names, L W # H, and macros.", "0 9 * * 1-5"),
			"rrule":     textOf("RFC 5545, FREQ=DAILY or slower.", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17"),
			"anchor":    textOf("Where every counts from, or the DTSTART of an rrule.", "2026-01-01T00:00:00Z"),
			"timezone":  textOf("IANA name. Default UTC.", "America/New_York"),
			"dst":       {Ref: schemaPrefix + "DST", Description: "What a change of the clock does."},
			"start_at":  {Type: "string", Format: "date-time", Description: "Nothing before."},
			"end_at":    {Type: "string", Format: "date-time", Description: "Nothing at or after."},
			"jitter":    textOf("Each run starts up to this much later, always the same for a due time.", "30s"),
			"calendars": listOf("What is excluded.", &huma.Schema{Ref: schemaPrefix + "Calendar"}),
		},
	}
}

func dstSchema() *huma.Schema {
	return &huma.Schema{
		Type: "object", AdditionalProperties: false, Properties: map[string]*huma.Schema{
			"gap": {
				Type: "string", Enum: []any{"shift", "skip"},
				Description: "A time that does not happen. Default shift: once, when the gap ends.",
			},
			"fold": {
				Type: "string", Enum: []any{"first", "second", "both"},
				Description: "A time that happens twice. Default first.",
			},
		},
	}
}

func calendarSchema() *huma.Schema {
	item := &huma.Schema{Type: "string"}
	return &huma.Schema{
		Type: "object", AdditionalProperties: false, Properties: map[string]*huma.Schema{
			"dates":    listOf("2026-12-25, 2026-12-24/2027-01-01, or each year 12-25.", item),
			"weekdays": listOf("sat, sun, …", item),
			"windows":  listOf("12:00-13:00", item),
		},
	}
}

func textOf(about, example string) *huma.Schema {
	return &huma.Schema{Type: "string", Description: about + " Such as " + example + ".", MaxLength: ptr(1024)}
}

func listOf(about string, items *huma.Schema) *huma.Schema {
	return &huma.Schema{Type: "array", Description: about, Items: items}
}

func ptr[T any](v T) *T { return &v }

// ExplainSchedule reports what is wrong with a schedule that is neither a string nor an object as
// described. It returns nothing for other fields.
func ExplainSchedule(field string, value any) (out []rest.FieldProblem) {
	if field != "schedule" && !strings.HasSuffix(field, ".schedule") {
		return nil
	}
	written, ok := value.(map[string]any)
	if !ok {
		return []rest.FieldProblem{{
			Field: field, Problem: "it is neither a text nor an object",
			Fix: `write it as "0 9 * * 1-5" or as {"cron":"0 9 * * 1-5","timezone":"Europe/Berlin"}`,
		}}
	}
	known := specSchema().Properties
	for _, name := range slices.Sorted(maps.Keys(written)) {
		at := field + "." + rest.Printable(name)
		schema, ok := known[name]
		if !ok {
			fix := rest.Suggest(name, slices.Sorted(maps.Keys(known)))
			out = append(out, rest.FieldProblem{Field: at, Problem: "there is no such field", Fix: fix})
			continue
		}
		if _, isText := written[name].(string); schema.Type == huma.TypeString && !isText {
			out = append(out, rest.FieldProblem{Field: at, Problem: "it is not a string", Fix: `write it in "quotes"`})
		}
	}
	if len(out) == 0 {
		out = append(out, rest.FieldProblem{
			Field: field, Problem: "a part of it is not as described", Fix: "compare it with the reference, /docs",
		})
	}
	return out
}
