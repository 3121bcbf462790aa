package access_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// TestRoleMay has the whole table: which roles (columns) a key of a role (row) has.
func TestRoleMay(t *testing.T) {
	t.Parallel()
	needs := []access.Role{access.Viewer, access.Operator, access.Editor, access.Admin, access.Worker}
	for role, want := range map[access.Role][5]bool{
		access.Viewer:   {true},
		access.Operator: {true, true},
		access.Editor:   {true, true, true, false, true},
		access.Admin:    {true, true, true, true, true},
		access.Worker:   {false, false, false, false, true},
		"owner":         {},
		"":              {},
	} {
		for i, need := range needs {
			require.Equal(t, want[i], role.May(need), "%q may what %q may", role, need)
		}
		require.False(t, role.May("veiwer"), "%q may not what a role may that does not exist", role)
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	worker := access.Principal{Role: access.Worker, Queues: []string{"mail", "reports"}}
	require.True(t, worker.Serves("mail"))
	require.False(t, worker.Serves("imports"))
	require.False(t, access.Principal{Role: access.Worker}.Serves(""))
	for role, want := range map[access.Role]bool{
		access.Viewer: false, access.Operator: false, access.Editor: true, access.Admin: true,
	} {
		require.Equal(t, want, access.Principal{Role: role, Queues: []string{"mail"}}.Serves("mail"), role)
	}
}

func TestActorNamesKeyByNameAndID(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01920000-0000-7000-8000-0123456789ab")
	p := access.Principal{Key: id, KeyName: "ci"}
	require.Equal(t, "key:ci ["+access.FormatKeyID(id)+"]", p.Actor())
}

func TestKeyID(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	text := access.FormatKeyID(id)
	require.Regexp(t, "^key_[0-9a-v]{26}$", text)
	back, err := access.ParseKeyID(text)
	require.NoError(t, err)
	require.Equal(t, id, back)
	for _, bad := range []string{
		"", "key_", text[4:], text + "0", text[:len(text)-1], strings.ToUpper(text), " " + text, job.FormatJobID(id),
	} {
		_, err := access.ParseKeyID(bad)
		require.ErrorIs(t, err, job.ErrBadID, bad)
	}
}

func TestKeySecret(t *testing.T) {
	t.Parallel()
	var random [32]byte
	for i := range random {
		random[i] = byte(i * 7)
	}
	secret := access.FormatKey(random)
	require.Regexp(t, "^bfk_[0-9a-v]{58}$", secret)
	require.NotEqual(t, secret, access.FormatKey([32]byte{1}))
	hash, err := access.KeyHash(secret)
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256([]byte(secret)), hash, "stored hashes must stay valid")
	require.Equal(t, secret[:10], access.KeyShown(secret))
	require.Equal(t, "bfk_", access.KeyShown("bfk_"))
}

// TestKeySecretChecksum: no single typing error gives a valid key.
func TestKeySecretChecksum(t *testing.T) {
	t.Parallel()
	secret := access.FormatKey([32]byte{1, 2, 3})
	for i := range secret {
		for _, c := range []byte("0v_A\n") {
			if secret[i] == c {
				continue
			}
			_, err := access.KeyHash(secret[:i] + string(c) + secret[i+1:])
			require.ErrorIs(t, err, access.ErrBadKey, "character %d", i)
		}
	}
	for _, bad := range []string{"", "bfk_", "bfk_nonsense", secret[4:], secret + "0", secret[:len(secret)-1]} {
		_, err := access.KeyHash(bad)
		require.ErrorIs(t, err, access.ErrBadKey, bad)
	}
}

func fields(err error) []string {
	out := []string{}
	for _, p := range problem.All(err) {
		out = append(out, p.Field)
	}
	return out
}

func TestKeyParamsValidate(t *testing.T) {
	t.Parallel()
	many := strings.Split(strings.Repeat("q,", access.MaxKeyQueues)+"q", ",")
	for name, tc := range map[string]struct {
		params access.KeyParams
		want   []string
	}{
		"viewer": {access.KeyParams{Name: "a", Role: access.Viewer}, []string{}},
		"worker": {
			access.KeyParams{Name: "a", Role: access.Worker, Queues: []string{"mail"}}, []string{},
		},
		"longest life": {
			access.KeyParams{Name: "a", Role: access.Admin, ExpiresIn: access.MaxKeyLife}, []string{},
		},
		"like Belfry itself":    {access.KeyParams{Name: "Belfry", Role: access.Viewer}, []string{"name"}},
		"like a person":         {access.KeyParams{Name: "user:ann", Role: access.Viewer}, []string{"name"}},
		"like a key":            {access.KeyParams{Name: "key:ci", Role: access.Viewer}, []string{"name"}},
		"nothing set":           {access.KeyParams{}, []string{"name", "role"}},
		"unknown role":          {access.KeyParams{Name: "a", Role: "owner"}, []string{"role"}},
		"worker without queues": {access.KeyParams{Name: "a", Role: access.Worker}, []string{"queues"}},
		"too many queues":       {access.KeyParams{Name: "a", Role: access.Worker, Queues: many}, []string{"queues"}},
		"bad queue": {
			access.KeyParams{Name: "a", Role: access.Worker, Queues: []string{"Mail", "-"}}, []string{"queues"},
		},
		"queues of an editor": {
			access.KeyParams{Name: "a", Role: access.Editor, Queues: []string{"mail"}}, []string{"queues"},
		},
		"negative life": {access.KeyParams{Name: "a", Role: access.Admin, ExpiresIn: -1}, []string{"expires_in"}},
		"no life": {
			access.KeyParams{Name: "a", Role: access.Admin, ExpiresIn: time.Nanosecond}, []string{"expires_in"},
		},
		"life too long": {
			access.KeyParams{Name: "a", Role: access.Admin, ExpiresIn: access.MaxKeyLife + time.Second},
			[]string{"expires_in"},
		},
		"all wrong": {
			access.KeyParams{Name: "\n", Role: "x", Queues: []string{"mail"}, ExpiresIn: -1},
			[]string{"name", "role", "queues", "expires_in"},
		},
	} {
		require.Equal(t, tc.want, fields(tc.params.Validate()), name)
	}
}

func TestValidateNamespace(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "default", "team-1", strings.Repeat("a", 63)} {
		require.NoError(t, access.ValidateNamespace(good), good)
	}
	for _, bad := range []string{"", "-a", "a-", "A", "a.b", "a b", "ä", "a\n", strings.Repeat("a", 64)} {
		require.Equal(t, []string{"name"}, fields(access.ValidateNamespace(bad)), bad)
	}
}

// TestPersonName: a name has no id of its own, and no marks that make it look like another one.
func TestPersonName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		" Ann Lee ": "Ann Lee", "ann@example.com [user_1]": "ann@example.com user_1",
		"\u202eann\u200b": "ann", "a\x00b\x7f": "ab", "[]": "",
	} {
		require.Equal(t, want, access.PersonName(name))
	}
}
