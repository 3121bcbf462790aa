package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
)

// ErrNoObject says that a text is not a JSON object.
var ErrNoObject = errors.New("the body is not a JSON object")

// Patch is a JSON merge patch (RFC 7396) of an object. Numbers keep the way they are written.
type Patch map[string]any

// ParsePatch reads a patch. Only within the members free may an object have any number of members.
func ParsePatch(text []byte, free ...string) (p Patch, err error) {
	if _, err := checkText(text, MaxValues); err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, ErrNoObject
	}
	if err := checkMembers(text, maxMembers, free); err != nil {
		return nil, err
	}
	if p, err = tree(text); err != nil || p == nil {
		return nil, ErrNoObject
	}
	return p, nil
}

// tree decodes a JSON object.
func tree(text []byte) (t map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return t, d.Decode(&t)
}

// Has reports whether the patch names the member at a path.
func (p Patch) Has(path ...string) bool {
	at := any(map[string]any(p))
	for _, name := range path {
		members, _ := at.(map[string]any)
		inner, ok := members[name]
		if !ok {
			return false
		}
		at = inner
	}
	return true
}

// Apply returns an object as the patch changes it. The patch must not be used afterwards.
func (p Patch) Apply(object []byte) ([]byte, error) {
	into, err := tree(object)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err = e.Encode(merge(into, map[string]any(p)))
	return out.Bytes(), err
}

// merge changes into, and uses parts of the patch for it.
func merge(into, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	members, ok := into.(map[string]any)
	if !ok || len(members) < len(change) { // the larger map is not copied
		return mergeUnder(members, change)
	}
	for name, value := range change {
		if value == nil {
			delete(members, name)
			continue
		}
		members[name] = merge(members[name], value)
	}
	return members
}

// mergeUnder adds to a patch what it leaves as it is.
func mergeUnder(members, change map[string]any) any {
	for name, value := range change {
		if value == nil {
			delete(change, name)
		} else {
			change[name] = merge(members[name], value)
		}
		delete(members, name)
	}
	maps.Copy(change, members)
	return change
}
