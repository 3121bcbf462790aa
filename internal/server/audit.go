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
	Audit(ctx context.Context, o access.AuditParams) (access.AuditPage, error)
	VerifyAudit(
		ctx context.Context, namespace uuid.UUID, from access.AuditCheck, limit int,
	) (good access.AuditCheck, more bool, err error)
}

func (s *Server) registerAudit() {
	rest.Register(s.api, rest.Operation{
		ID: "list-audit", Route: "GET /audit", Summary: "List who changed what, the newest first",
		Description: "A page with filters may be short, or empty, although there are more entries: " +
			"go on with next_page_token as long as there is one.",
		Role: access.Admin,
	}, s.listAudit)
	rest.Register(s.api, rest.Operation{
		ID: "verify-audit", Route: "GET /audit:verify", Summary: "Check that nothing was changed in the audit log",
		Description: "Each entry's hash covers the one before it, so an entry that was changed or taken out shows. " +
			"Entries cut off at the end do not: keep a mark elsewhere, as the log of a node does, and send it as from. " +
			"Nodes with a keyset seal each entry, and a node with the keyset checks the seals. " +
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

	Address   string `json:"address,omitempty" doc:"Address and port of the client, or of a proxy." example:"192.0.2.7:51034"`
	RequestID string `json:"request_id,omitempty" doc:"Id of the request, as in the header X-Request-Id and the log."`
}

func wireAudit(e access.AuditEntry) AuditEntry {
	return AuditEntry{
		Seq: e.Seq, At: e.At, Actor: e.Actor, Action: e.Action, Object: e.Object, Detail: rest.JSON(e.Detail),
		Hash: e.Hash[:], Address: e.Origin.Address, RequestID: e.Origin.Request,
	}
}

type listAuditInput struct {
	rest.PageInput
	Actor  string    `query:"actor" maxLength:"300" doc:"Name or id of a key, or the actor as entries have it." example:"ci"`
	Action string    `query:"action" maxLength:"60" doc:"An action, or a kind of object for all actions on it." example:"job.pause"`
	Object string    `query:"object" maxLength:"300" doc:"Id or name of the changed object. The name of a deleted job counts too."`
	From   time.Time `query:"from" doc:"Entries of this time and later."`
	To     time.Time `query:"to" doc:"Entries before this time."`
}

func (s *Server) listAudit(ctx context.Context, in *listAuditInput) (*rest.PageOutput[AuditEntry], error) {
	params := access.AuditParams{
		Namespace: rest.Principal(ctx).Namespace, Actor: in.Actor, Action: in.Action, Object: in.Object,
		From: in.From, To: in.To, Limit: in.PageSize,
	}
	if err := in.After(ctx, &params.Before); err != nil {
		return nil, err
	}
	page, err := s.opts.Audit.Audit(ctx, params)
	if err != nil {
		return nil, err
	}
	out := &rest.PageOutput[AuditEntry]{}
	out.Body.Items = rest.Map(page.Entries, wireAudit)
	if page.Next > 0 {
		out.Body.NextPageToken = rest.Token(ctx, page.Next)
	}
	return out, nil
}

// maxVerified is how many entries one request checks.
const maxVerified = 10_000

type verifyAuditInput struct {
	PageToken string `query:"page_token" maxLength:"1000" doc:"next_page_token of the last response. Default: the start."`
	From      string `query:"from" maxLength:"100" doc:"A mark: this entry must still be there, and later ones are checked."`

	UnsealedTo int64 `query:"unsealed_to" minimum:"0" doc:"The last entry that may lack a seal although one before it has one."`
}

// AuditVerification is the result of checking the audit log.
type AuditVerification struct {
	OK      bool   `json:"ok" doc:"Whether all checked entries are unchanged."`
	Entries int64  `json:"entries" doc:"Number of unchanged entries, from the first on."`
	Hash    []byte `json:"hash,omitempty" doc:"Hash of the last unchanged entry. Keep it elsewhere, and compare it later."`
	Problem string `json:"problem,omitempty" doc:"What is wrong with the next entry."`

	SealedFrom int64 `json:"sealed_from,omitempty" doc:"The first checked entry that has a seal. Absent: none has one."`
	Sealed     int64 `json:"sealed" doc:"Checked entries whose seal is right."`
	Unsealed   int64 `json:"unsealed" doc:"Checked entries without a seal: whoever wrote them had no keyset."`
	Unchecked  int64 `json:"unchecked" doc:"Checked entries whose seal this node cannot check: it lacks the key."`
	Keyset     bool  `json:"keyset" doc:"Whether this node has a keyset. If so, entries after the mark of from must have a seal."`

	NextPageToken string `json:"next_page_token,omitempty" doc:"page_token of the next page. Absent: no more."`
}

type verifyAuditOutput struct {
	Body AuditVerification
}

func (s *Server) verifyAudit(ctx context.Context, in *verifyAuditInput) (*verifyAuditOutput, error) {
	from := access.AuditCheck{UnsealedTo: in.UnsealedTo}
	if in.From != "" {
		var ok bool
		if from.AuditMark, ok = access.ParseAuditMark(in.From); !ok {
			return nil, badMark()
		}
		from.Marked = true
	}
	if err := rest.ParseToken(ctx, in.PageToken, &from); err != nil {
		return nil, err
	}
	good, more, err := s.opts.Audit.VerifyAudit(ctx, rest.Principal(ctx).Namespace, from, maxVerified)
	out := &verifyAuditOutput{Body: AuditVerification{
		Entries: good.Seq, SealedFrom: good.SealedFrom, Sealed: good.Sealed, Unsealed: good.Unsealed,
		Unchecked: good.Unchecked, Keyset: good.Keyset,
	}}
	broken, isBroken := errors.AsType[*access.AuditBroken](err)
	unsealed, isUnsealed := errors.AsType[*access.AuditUnsealed](err)
	switch {
	case isBroken:
		out.Body.Problem = broken.Error()
	case isUnsealed:
		out.Body.Problem = unsealed.Error()
	case err != nil:
		return nil, err
	}
	out.Body.OK = out.Body.Problem == ""
	if good.Seq > 0 {
		out.Body.Hash = good.Hash[:]
	}
	if more && out.Body.OK {
		out.Body.NextPageToken = rest.Token(ctx, good)
	}
	return out, nil
}

func badMark() *rest.Problem {
	const fix = "send a mark as a node logs it: the number of an entry, a colon and its hash"
	p := rest.NewProblem("bad_request", "from is not a mark of the audit log; "+fix)
	p.Problems = []rest.FieldProblem{{Field: "from", Problem: "it is not a mark of the audit log", Fix: fix}}
	return p
}
