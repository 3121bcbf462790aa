package s3_test

import (
	"net/url"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive/s3"
	"github.com/belfry-dev/belfry/internal/archive/storetest"
)

// bucket creates a bucket on the server of the tests.
func bucket(t *testing.T) s3.Options {
	o := s3.Options{
		URL: os.Getenv("BELFRY_TEST_S3_URL"), AccessKey: os.Getenv("BELFRY_TEST_S3_ACCESS_KEY"),
		SecretKey: os.Getenv("BELFRY_TEST_S3_SECRET_KEY"), Region: "us-east-1",
		Bucket: "belfry-test-" + uuid.NewString(),
	}
	if o.URL == "" {
		t.Skip("needs an S3 server: eval \"$(dev/services env s3)\"")
	}
	server, err := url.Parse(o.URL)
	require.NoError(t, err)
	admin, err := minio.New(server.Host, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Region: o.Region,
	})
	require.NoError(t, err)
	require.NoError(t, admin.MakeBucket(t.Context(), o.Bucket, minio.MakeBucketOptions{Region: o.Region}))
	return o
}

func TestStore(t *testing.T) {
	t.Parallel()
	o := bucket(t)
	for _, prefix := range []string{"", "team/belfry"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			o := o
			o.Prefix = prefix
			s, err := s3.Open(o)
			require.NoError(t, err)
			storetest.Run(t, s)
		})
	}
}

// TestWrongKeys: the error names the object and the bucket, and is none that the archive takes for an answer.
func TestWrongKeys(t *testing.T) {
	t.Parallel()
	o := bucket(t)
	o.SecretKey = "wrong"
	s, err := s3.Open(o)
	require.NoError(t, err)
	_, err = s.List(t.Context(), "v1/", "", 1)
	require.ErrorContains(t, err, o.Bucket)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := s3.Options{URL: "https://s3.example.com", Bucket: "history", Prefix: "/a/b/"}
	_, err := s3.Open(good)
	require.NoError(t, err)
	for name, change := range map[string]func(*s3.Options){
		"no scheme": func(o *s3.Options) { o.URL = "s3.example.com" },
		"no host":   func(o *s3.Options) { o.URL = "https://" },
		"ftp":       func(o *s3.Options) { o.URL = "ftp://s3.example.com" },
		"no bucket": func(o *s3.Options) { o.Bucket = "" },
		"prefix":    func(o *s3.Options) { o.Prefix = "a/../b" },
	} {
		o := good
		change(&o)
		_, err := s3.Open(o)
		require.Error(t, err, name)
	}
}
