package runner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImagesOfANamespace: an entry with a namespace allows the image to no other.
func TestImagesOfANamespace(t *testing.T) {
	t.Parallel()
	s := &Settings{Socket: "/run/x.sock", Images: []string{"docker.io/busybox:1", "billing=registry.example.com:5000/b/*"}}
	for _, c := range []struct {
		image, namespace string
		ok               bool
	}{
		{"docker.io/busybox:1", "billing", true},
		{"docker.io/busybox:1", "other", true},
		{"registry.example.com:5000/b/report:2", "billing", true},
		{"registry.example.com:5000/b/report:2", "other", false},
		{"registry.example.com:5000/b/report:2", "", false},
		{"registry.example.com:5000/c", "billing", false},
		{"billing=registry.example.com:5000/b/report", "other", false},
	} {
		err := s.allow(&Spec{Image: c.image, Namespace: c.namespace})
		require.Equal(t, c.ok, err == nil, "%v: %v", c, err)
		if err != nil {
			require.ErrorContains(t, err, "command.images")
		}
	}
}
