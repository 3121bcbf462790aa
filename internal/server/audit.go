package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
)

// AuditLog is the store, as its readers see it.
type AuditLog interface {
	Audit(ctx context.Context, namespace uuid.UUID, before int64, limit int) ([]access.AuditEntry, error)
	VerifyAudit(ctx context.Context, namespace uuid.UUID, from access.AuditMark, limit int) (good access.AuditMark, more bool, err error)
}

func (s *Server) registerAudit() {
	huma.Register(s.api, operation("list-audit", http.MethodGet, "/audit", "List who changed what, the newest first", access.Admin), s.listAudit)
	verify := operation("verify-audit", http.MethodGet, "/audit:verify", "Check that nothing was changed in the audit log", access.Admin)
	verify.Description = "Each entry's hash covers the one before it, so an entry that was changed or taken out shows. Entries cut off at the end do not: keep the last hash elsewhere. One request checks up to 10,000 entries: go on with next_page_token as long as there is one."
	huma.Register(s.api, verify, s.verifyAudit)
}

// AuditEntry is one change that somebody asked for.
type AuditEntry struct {
	Seq    int64     `json:"seq" doc:"Counts from 1 in each namespace, without gaps."`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor" doc:"The key's name and id, or belfry itself." example:"key:ci [key_06f8m2tq5dtk1e7n9q0c3s5v7g]"`
	Action string    `json:"action" example:"job.create"`
	Object string    `json:"object" doc:"The id or the name of what was changed."`
	Detail JSON      `json:"detail"`
	Hash   []byte    `json:"hash" doc:"Covers the entry and the hash before it."`
}

type listAuditOutput struct {
	Body struct {
		Items         []AuditEntry `json:"items"`
		NextPageToken string       `json:"next_page_token,omitempty" doc:"There may be more: send it as page_token. Left out: there is no more."`
	}
}

func (s *Server) listAudit(ctx context.Context, in *LedgerPage) (*listAuditOutput, error) {
	var before int64
	if err := in.after(&before); err != nil {
		return nil, s.problem(ctx, err)
	}
	found, err := s.opts.Audit.Audit(ctx, principal(ctx).Namespace, before, in.PageSize+1)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &listAuditOutput{}
	out.Body.Items, out.Body.NextPageToken = paged(found, in.PageSize, func(e access.AuditEntry) any { return e.Seq }, func(e access.AuditEntry) AuditEntry {
		return AuditEntry{Seq: e.Seq, At: e.At, Actor: e.Actor, Action: e.Action, Object: e.Object, Detail: JSON(e.Detail), Hash: e.Hash[:]}
	})
	return out, nil
}

// maxVerified is how many entries one request checks.
const maxVerified = 10_000

type verifyAuditInput struct {
	PageToken string `query:"page_token" maxLength:"1000" doc:"next_page_token of the answer before. Default: from the first entry on."`
}

type verifyAuditOutput struct {
	Body struct {
		OK      bool   `json:"ok" doc:"Nothing was changed as far as it was checked."`
		Entries int64  `json:"entries" doc:"How many are good, from the first on."`
		Problem string `json:"problem,omitempty" doc:"What is wrong after them."`

		NextPageToken string `json:"next_page_token,omitempty" doc:"There may be more entries: send it as page_token. Left out: these were all."`
	}
}

func (s *Server) verifyAudit(ctx context.Context, in *verifyAuditInput) (*verifyAuditOutput, error) {
	out := &verifyAuditOutput{}
	var from access.AuditMark
	if err := (&LedgerPage{PageToken: in.PageToken}).after(&from); err != nil {
		return nil, s.problem(ctx, err)
	}
	good, more, err := s.opts.Audit.VerifyAudit(ctx, principal(ctx).Namespace, from, maxVerified)
	if broken, ok := errors.AsType[*access.AuditBroken](err); ok {
		out.Body.Problem = broken.Error()
		err = nil
	}
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out.Body.OK, out.Body.Entries = out.Body.Problem == "", good.Seq
	if more && out.Body.OK {
		out.Body.NextPageToken = tokenOf(good)
	}
	return out, nil
}
