package job

// Secret is a value that users have stored to be used by targets. Nothing prints
// it: not fmt, not a log, not JSON.
type Secret struct {
	// Values are the newest and, for a while after it was replaced, the one
	// before: a receiver that has only one of them still knows us.
	Values []string
}

// Value is the newest.
func (s Secret) Value() string {
	if len(s.Values) == 0 {
		return ""
	}
	return s.Values[0]
}

const hidden = "[hidden]"

func (Secret) String() string { return hidden }

// GoString is for %#v.
func (Secret) GoString() string { return hidden }

// MarshalText is for JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// CheckSecretName says what is wrong with the name of a secret. Names are not
// secret, but somebody may have put the value in their place: it is not repeated.
func CheckSecretName(name string) error {
	if queueForm.MatchString(name) {
		return nil
	}
	return &Problem{Field: "name", Problem: "it is not a name for a secret", Fix: "use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"}
}
