package access_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

func entry() access.AuditEntry {
	return access.AuditEntry{
		Seq: 7, At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Actor: "key:ci", Action: "job.create",
		Object: "job_1", Detail: `{"name":"a"}`,
	}
}

// TestChainCoversEverything: a change of any part of an entry, of its namespace or of the entry before changes the
// hash.
func TestChainCoversEverything(t *testing.T) {
	t.Parallel()
	namespace, before := access.DefaultNamespace, [32]byte{1}
	want := entry().Chain(namespace, before)
	require.Equal(t, want, entry().Chain(namespace, before))
	require.NotEqual(t, want, entry().Chain(uuid.New(), before))
	require.NotEqual(t, want, entry().Chain(namespace, [32]byte{2}))
	for name, change := range map[string]func(*access.AuditEntry){
		"seq":     func(e *access.AuditEntry) { e.Seq++ },
		"at":      func(e *access.AuditEntry) { e.At = e.At.Add(time.Microsecond) },
		"actor":   func(e *access.AuditEntry) { e.Actor += "x" },
		"action":  func(e *access.AuditEntry) { e.Action = "job.delete" },
		"object":  func(e *access.AuditEntry) { e.Object = "" },
		"detail":  func(e *access.AuditEntry) { e.Detail = "{}" },
		"address": func(e *access.AuditEntry) { e.Origin.Address = "192.0.2.7:80" },
		"request": func(e *access.AuditEntry) { e.Origin.Request = "r1" },
		"moved":   func(e *access.AuditEntry) { e.Actor, e.Action = "key:cij", "ob.create" },
	} {
		e := entry()
		change(&e)
		require.NotEqual(t, want, e.Chain(namespace, before), name)
	}
	e := entry()
	e.Hash = [32]byte{9}
	require.Equal(t, want, e.Chain(namespace, before), "its own hash is not part of it")
	e.At = e.At.In(time.FixedZone("", 3600))
	require.Equal(t, want, e.Chain(namespace, before), "zones do not matter")
}

// TestChainNeverChanges: hashes are stored, and users keep them elsewhere to check the log.
func TestChainNeverChanges(t *testing.T) {
	t.Parallel()
	got := entry().Chain(access.DefaultNamespace, [32]byte{})
	require.Equal(t, "a631a519b8f9eb825a07082ab6c2c44718b6a6f394bcce6541181232601d0e76", hex.EncodeToString(got[:]))
	e := entry()
	e.Origin = access.Origin{Address: "192.0.2.7:51034", Request: "mfrggzdf"}
	got = e.Chain(access.DefaultNamespace, [32]byte{})
	require.Equal(t, "23c2234131a3b38fe722b19174ce4b4ddbdb031b417e658d3cf0669a94b90dec", hex.EncodeToString(got[:]))
}
