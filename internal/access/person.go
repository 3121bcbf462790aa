package access

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Person is a user who logged in through an identity provider, and not with a key.
type Person struct {
	Issuer  string   // the provider
	Subject string   // the provider's id of the person, which it gives to no other
	Name    string   // for people, such as an email address. Not unique
	Groups  []string // at the time of the login, and only those that a grant named
}

// maxPersonText bounds the name and the subject of a person. OpenID Connect allows subjects of 255 characters.
const maxPersonText = 255

// personSpace separates the ids of people from other ids that are made from a hash.
var personSpace = uuid.MustParse("6f1f63f2-2c5e-4c27-9a0e-9d1a6f9c7b11")

// ID identifies the person in Belfry: in limits, in the audit log and in login sessions.
func (p Person) ID() uuid.UUID {
	return uuid.NewHash(sha256.New(), personSpace, []byte(p.Issuer+"\x00"+p.Subject), 8)
}

// ValidSubject reports whether a provider's id of a person can be stored.
func ValidSubject(s string) bool {
	return s != "" && len(s) <= maxPersonText && !strings.ContainsFunc(s, func(r rune) bool { return !printable(r) })
}

// PersonName returns the part of a name that is kept; empty if nothing of it can be. Brackets are around ids, and marks
// that cannot be seen could make a name look like another one.
func PersonName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '[' || r == ']' || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	return strings.TrimSpace(shorten(name, maxPersonText))
}

// FormatPersonID is the public id of a person. It is not a secret.
func FormatPersonID(id uuid.UUID) string { return "user_" + job.Alphabet.EncodeToString(id[:]) }

// Everyone is the group that each person of the provider has.
const Everyone = "*"

// MaxGrants bounds the grants of a configuration.
const MaxGrants = 500

// Grant gives a role in a namespace to the people of a group.
type Grant struct {
	Group     string
	Namespace string
	Role      Role
}

// Grants are all grants of a configuration.
type Grants []Grant

// ParseGrants reads grants as "GROUP = NAMESPACE:ROLE", separated by semicolons or line ends. The last = counts, because
// groups may have one in their names.
func ParseGrants(text string) (out Grants, err error) {
	for entry := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		last := strings.LastIndexByte(entry, '=')
		if last < 0 {
			return nil, fmt.Errorf("%.60q is not GROUP = NAMESPACE:ROLE", entry)
		}
		namespace, role, _ := strings.Cut(entry[last+1:], ":")
		g := Grant{strings.TrimSpace(entry[:last]), strings.TrimSpace(namespace), Role(strings.TrimSpace(role))}
		switch {
		case g.Group == "" || ValidateNamespace(g.Namespace) != nil:
			return nil, fmt.Errorf("%.60q is not GROUP = NAMESPACE:ROLE", entry)
		case !slices.Contains(Roles, g.Role):
			return nil, fmt.Errorf("%.60q has none of the roles viewer, operator, editor, admin", entry)
		case len(out) == MaxGrants:
			return nil, fmt.Errorf("there are more than %d grants", MaxGrants)
		}
		out = append(out, g)
	}
	return out, nil
}

// Known returns which of a person's groups a grant names, without duplicates.
func (g Grants) Known(groups []string) (out []string) {
	for _, grant := range g {
		if slices.Contains(groups, grant.Group) && !slices.Contains(out, grant.Group) {
			out = append(out, grant.Group)
		}
	}
	return out
}

// Provider is the identity provider whose people may log in, and what they may do.
type Provider struct {
	Issuer string
	Grants Grants
}

// Roles returns what a person may do: the most powerful role of all groups, by the name of the namespace. It returns
// nothing for people of another provider. A nil Provider gives no role.
func (p *Provider) Roles(of Person) map[string]Role {
	out := map[string]Role{}
	if p == nil || of.Subject == "" || of.Issuer != p.Issuer {
		return out
	}
	for _, g := range p.Grants {
		if (g.Group == Everyone || slices.Contains(of.Groups, g.Group)) && !out[g.Namespace].May(g.Role) {
			out[g.Namespace] = g.Role
		}
	}
	return out
}
