package server

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// AuditLog is the part of the store that reads the audit log.
type AuditLog interface {
	Audit(ctx context.Context, namespace uuid.UUID, before int64, limit int) ([]access.AuditEntry, error)
	VerifyAudit(
		ctx context.Context, namespace uuid.UUID, from access.AuditMark, limit int,
	) (good access.AuditMark, more bool, err error)
}

func (s *Server) registerAudit() {
	rest.Register(s.api, rest.Operation{
		ID: "list-audit", Route: "GET /audit", Summary: "List who changed what, the newest first", Role: access.Admin,
	}, s.listAudit)
	rest.Register(s.api, rest.Operation{
		ID: "verify-audit", Route: "GET /audit:verify", Summary: "Check that nothing was changed in the audit log",
		Description: "Each entry's hash covers the one before it, so an entry that was changed or taken out shows. " +
			"Entries cut off at the end do not: keep the last hash elsewhere. " +
			"One request checks up to 10,000 entries: go on with next_page_token as long as there is one.",
		Role: access.Admin,
	}, s.verifyAudit)
}

// AuditEntry is one change that a key asked for.
type AuditEntry struct {
	Seq    int64     `json:"seq" doc:"Counts from 1 in each namespace, without gaps."`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor" doc:"Name and id of a key, or belfry." example:"key:ci [key_06f8m2tq5dtk1e7n9q0c3s5v7g]"`
	Action string    `json:"action" example:"job.create"`
	Object string    `json:"object" doc:"Id or name of the changed object."`
	Detail rest.JSON `json:"detail"`
	Hash   []byte    `json:"hash" doc:"Hash of the entry and of the hash before it."`
}

func wireAudit(e access.AuditEntry) AuditEntry {
	return AuditEntry{
		Seq: e.Seq, At: e.At, Actor: e.Actor, Action: e.Action, Object: e.Object, Detail: rest.JSON(e.Detail),
		Hash: e.Hash[:],
	}
}

func (s *Server) listAudit(ctx context.Context, in *rest.PageInput) (*rest.PageOutput[AuditEntry], error) {
	return rest.List[int64, access.AuditEntry, AuditEntry]{
		Read: s.opts.Audit.Audit, Mark: func(e access.AuditEntry) int64 { return e.Seq }, Wire: wireAudit,
	}.Page(ctx, in)
}

// maxVerified is how many entries one request checks.
const maxVerified = 10_000

type verifyAuditInput struct {
	PageToken string `query:"page_token" maxLength:"1000" doc:"next_page_token of the last response. Default: the start."`
}

// AuditVerification is the result of checking the audit log.
type AuditVerification struct {
	OK      bool   `json:"ok" doc:"Whether all checked entries are unchanged."`
	Entries int64  `json:"entries" doc:"Number of unchanged entries, from the first on."`
	Problem string `json:"problem,omitempty" doc:"What is wrong with the next entry."`

	NextPageToken string `json:"next_page_token,omitempty" doc:"page_token of the next page. Absent: no more."`
}

type verifyAuditOutput struct {
	Body AuditVerification
}

func (s *Server) verifyAudit(ctx context.Context, in *verifyAuditInput) (*verifyAuditOutput, error) {
	out := &verifyAuditOutput{}
	var from access.AuditMark
	if err := rest.ParseToken(ctx, in.PageToken, &from); err != nil {
		return nil, err
	}
	good, more, err := s.opts.Audit.VerifyAudit(ctx, rest.Principal(ctx).Namespace, from, maxVerified)
	if broken, ok := errors.AsType[*access.AuditBroken](err); ok {
		out.Body.Problem = broken.Error()
		err = nil
	}
	if err != nil {
		return nil, err
	}
	out.Body.OK, out.Body.Entries = out.Body.Problem == "", good.Seq
	if more && out.Body.OK {
		out.Body.NextPageToken = rest.Token(ctx, good)
	}
	return out, nil
}
