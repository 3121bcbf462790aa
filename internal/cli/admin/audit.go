package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/local"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newAudit() *cobra.Command {
	return usage.Group(&cobra.Command{
		Use: "audit", Short: "Read and verify the audit log, or check the ledger of runs",
		Long: `Two logs can be audited:

  list, verify   the audit log of your namespace: which key changed what. They ask
                 the server and need the role admin.
  ledger         the ledger of runs: is every occurrence accounted for? It reads the
                 database and covers all namespaces.`,
		Example: `  belfry audit list
  belfry audit verify
  belfry audit ledger --from 2026-03-01 --to 2026-03-08`,
	}, newAuditList(), newAuditVerify(), local.AuditLedger())
}

type auditEntryView struct {
	Seq    int64           `json:"seq"`
	At     *time.Time      `json:"at"`
	Actor  string          `json:"actor"`
	Action string          `json:"action"`
	Object string          `json:"object"`
	Detail json.RawMessage `json:"detail"`
}

// about returns the name of the changed object if the entry has it, else its id.
func (e *auditEntryView) about() string {
	var detail struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(e.Detail, &detail) == nil && detail.Name != "" {
		return terminal.Clean(detail.Name)
	}
	return e.Object
}

// details lists the fields of the detail that about does not show, such as note=… and version=….
func (e *auditEntryView) details() string {
	var fields map[string]any
	if json.Unmarshal(e.Detail, &fields) != nil {
		return ""
	}
	delete(fields, "name")
	parts := make([]string, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if value := fmt.Sprint(fields[name]); fields[name] != nil && value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	return terminal.Clean(strings.Join(parts, ", "))
}

func newAuditList() *cobra.Command {
	cmd := remote.Flags(&cobra.Command{
		Use: "list", Short: "List which key changed what, the newest first", Args: usage.Args(0, 0),
		Long: `List the entries of the audit log of your namespace, the newest first: when, which
key, what it did, to what, and details such as the note of a pause. It needs the
role admin.`,
		Example: `  belfry audit list
  belfry audit list --actor ci --action job.pause --from 2026-03-01
  belfry audit list --object imports --limit 0 -o json`,
	})
	limit := remote.LimitFlag(cmd.Flags())
	f := cmd.Flags()
	actor := f.String("actor", "", "by this key: its name or id")
	action := f.String("action", "", "an action such as job.pause, or job for all on jobs")
	object := f.String("object", "", "of this object: its name, or the id of a job or run")
	from := f.String("from", "", "at this time or later: a date or RFC 3339")
	to := f.String("to", "", "before this time")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		return remote.List(ctx, r, remote.Listing{
			Path: "/audit", Limit: *limit, None: "no entries", Name: "seq",
			Query: url.Values{
				"actor": {*actor}, "action": {*action}, "object": {*object}, "from": {atMidnight(*from)}, "to": {atMidnight(*to)},
			},
			Headers: []string{"SEQ", "AT UTC", "BY", "ACTION", "OBJECT", "DETAIL"}, Wide: []string{"ID"},
		}, func(e auditEntryView) []string {
			return []string{
				strconv.FormatInt(e.Seq, 10), terminal.Time(e.At, nil), remote.ActorName(e.Actor), e.Action,
				terminal.Dash(e.about()), terminal.Dash(terminal.Truncate(e.details(), 200)), e.Object,
			}
		})
	})
	return cmd
}

// atMidnight returns a time as the API reads it: a date begins at midnight UTC.
func atMidnight(text string) string {
	if _, err := time.Parse(time.DateOnly, text); err == nil {
		return text + "T00:00:00Z"
	}
	return text
}

// ErrAuditBroken is the error of audit verify if an entry was changed or removed.
var ErrAuditBroken = errors.New("the audit log was changed")

type verifyView struct {
	OK            bool   `json:"ok"`
	Entries       int64  `json:"entries"`
	Hash          string `json:"hash,omitempty"` // of the last entry
	Problem       string `json:"problem,omitempty"`
	SealedFrom    int64  `json:"sealed_from,omitempty"`
	Sealed        int64  `json:"sealed"`
	Unsealed      int64  `json:"unsealed"`
	Unchecked     int64  `json:"unchecked"`
	Keyset        bool   `json:"keyset"` // the server has one
	NextPageToken string `json:"next_page_token,omitempty"`
}

// seals says which seals were checked, in words. Most logs have either none or one on each entry.
func (v *verifyView) seals() string {
	text := "no entry has a seal: nodes have no keyset (secrets.keyset_file)"
	if v.Keyset {
		text = "no checked entry has a seal, although the server has a keyset"
	}
	if v.SealedFrom > 0 {
		text = fmt.Sprintf("%d seals checked; the first sealed entry is %d", v.Sealed, v.SealedFrom)
	}
	if v.SealedFrom > 0 && v.Unsealed > 0 {
		text += fmt.Sprintf("; %d entries have no seal", v.Unsealed)
	}
	if v.Unchecked > 0 {
		text += fmt.Sprintf("; %d seals not checked, because the server has no keyset with their key", v.Unchecked)
	}
	return text
}

func newAuditVerify() *cobra.Command {
	from, unsealed := "", int64(0)
	cmd := remote.Flags(&cobra.Command{
		Use: "verify", Short: "Check that no entry of the audit log was changed or removed", Args: usage.Args(0, 0),
		Long: `Check the audit log of your namespace: the hash of each entry covers the entry before
it, so a changed or removed entry is found. Entries removed at the end are found only
with a mark that was kept elsewhere: nodes log one each hour, and this command prints
one. With --from the entry of the mark must still be there, and later ones are checked.

Nodes with a keyset seal each entry, and a server with the keyset checks the seals: no
one else can change or add a sealed entry. An entry without a seal after sealed ones is
a problem, unless --unsealed-to names it or a later one: nodes without the keyset wrote
it. With --from, each entry after the mark needs a seal.

The exit code is 1 if the log was changed. It needs the role admin.`,
		Example: `  belfry audit verify
  belfry audit verify --from 12:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
  belfry audit verify -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			v, err := verifyAudit(ctx, r, from, unsealed)
			if err != nil {
				return err
			}
			raw, err := json.Marshal(v)
			if err != nil {
				return err
			}
			err = r.Show(raw, func() error {
				if v.OK {
					r.Line("%s: no entry was changed, of %d", terminal.Green.Render("verified"), v.Entries)
					r.Line("seals: %s", v.seals())
					if v.Hash != "" {
						r.Line("mark of the last one: %d:%s", v.Entries, v.Hash)
					}
				}
				return nil
			})
			if err == nil && !v.OK {
				return fmt.Errorf("%w: the first %d entries are unchanged, then: %s", ErrAuditBroken, v.Entries, v.Problem)
			}
			return err
		}),
	})
	cmd.Flags().StringVar(&from, "from", "", "mark of an entry that was kept elsewhere")
	cmd.Flags().Int64Var(&unsealed, "unsealed-to", 0, "number of the last entry that may lack a seal")
	return cmd
}

// verifyAudit verifies the log page by page, after a mark, and returns the result for all of it.
func verifyAudit(ctx context.Context, r *remote.Server, from string, unsealed int64) (v verifyView, err error) {
	query := url.Values{"unsealed_to": {strconv.FormatInt(unsealed, 10)}}
	if from != "" {
		query.Set("from", from)
	}
	for ; ; query = (url.Values{"page_token": {v.NextPageToken}}) {
		raw, err := r.Get(ctx, "/audit:verify", query)
		if err != nil {
			return v, err
		}
		v = verifyView{}
		if err := json.Unmarshal(raw, &v); err != nil || v.NextPageToken == "" {
			return v, err
		}
	}
}
