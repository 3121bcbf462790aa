package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArchiveURL(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"https://s3.example.com/bucket": true, "https://s3.example.com/bucket/a/b": true, "http://127.0.0.1:9000/b": true,
		"file:///srv/archive": true, "file:///": false, "file://host/x": false, "file://relative": false,
		"https://s3.example.com": false, "https://key:secret@s3.example.com/bucket": false, "s3://bucket": false,
		"https://s3.example.com/bucket?x=1": false, "/srv/archive": false,
	} {
		require.Equal(t, ok, archiveOK(text), text)
	}
	a := Archive{URL: "https://s3.example.com:9000/bucket/a/b"}
	server, bucket, prefix := a.Bucket()
	require.Equal(t, []string{"https://s3.example.com:9000", "bucket", "a/b"}, []string{server, bucket, prefix})
	require.Empty(t, a.Local())
	require.ErrorContains(t, a.check(), "archive.access_key_file")
	for text, ok := range map[string]bool{
		"http://s3.example.com/b": false, "http://10.1.2.3:9000/b": false, "http://localhost.example.com/b": false,
		"http://127.0.0.1:9000/b": true, "http://[::1]:9000/b": true, "http://localhost/b": true, "https://s3.example.com/b": true,
	} {
		a = Archive{URL: text, AccessKey: "a", SecretKey: "s"}
		if err := a.check(); ok {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, "archive.url leads to another machine without TLS", text)
		}
		a.Insecure = true
		require.NoError(t, a.check(), text)
	}
	a = Archive{URL: "file:///srv/archive", Required: true}
	require.Equal(t, "/srv/archive", a.Local())
	require.NoError(t, a.check())
	a.URL = ""
	require.ErrorContains(t, a.check(), "archive.required needs archive.url")
}
