// Package s3 keeps an archive in a bucket of an S3 API. It is the only package that knows the client.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/belfry-dev/belfry/internal/archive"
)

// Options say where the bucket is.
type Options struct {
	URL       string // of the server, such as https://s3.eu-central-1.amazonaws.com
	Region    string
	Bucket    string
	Prefix    string // of all names; empty: none
	AccessKey string
	SecretKey string
}

// Store is a bucket, or the part of it with a prefix.
type Store struct {
	client *minio.Client
	bucket string
	prefix string
}

// retries of one request. Whoever exports a day retries as well.
const retries = 3

// Open returns the store of a bucket. It does not connect.
func Open(o Options) (*Store, error) {
	server, err := url.Parse(o.URL)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the URL of an S3 API, such as https://s3.example.com", o.URL)
	}
	if o.Bucket == "" {
		return nil, errors.New("the archive needs the name of a bucket")
	}
	prefix := strings.Trim(o.Prefix, "/")
	if prefix != "" {
		if err := archive.CheckName(prefix); err != nil {
			return nil, err
		}
		prefix += "/"
	}
	client, err := minio.New(server.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""),
		Secure: server.Scheme == "https", Region: o.Region, MaxRetries: retries,
	})
	if err != nil {
		return nil, err
	}
	return &Store{client, o.Bucket, prefix}, nil
}

// Put writes an object in one request, which has the condition that there is none of this name.
func (s *Store) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	o := minio.PutObjectOptions{DisableMultipart: true, ContentType: "application/octet-stream"}
	o.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, body, size, o)
	return s.known(name, err)
}

// Get reads a part of an object.
func (s *Store) Get(ctx context.Context, name string, offset, n int64) (io.ReadCloser, error) {
	if err := archive.CheckName(name); err != nil {
		return nil, err
	}
	if n <= 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	var o minio.GetObjectOptions
	if err := o.SetRange(offset, offset+n-1); err != nil {
		return nil, err
	}
	body, _, _, err := minio.Core{Client: s.client}.GetObject(ctx, s.bucket, s.prefix+name, o)
	if err != nil {
		return nil, s.known(name, err)
	}
	return body, nil
}

// Size returns the size of an object.
func (s *Store) Size(ctx context.Context, name string) (int64, error) {
	if err := archive.CheckName(name); err != nil {
		return 0, err
	}
	info, err := s.client.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{})
	return info.Size, s.known(name, err)
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	err := s.known(name, s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, archive.ErrNotFound) {
		return nil
	}
	return err
}

// List returns names with a prefix.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) (names []string, err error) {
	o := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true, MaxKeys: limit}
	if after != "" {
		o.StartAfter = s.prefix + after
	}
	for object := range s.client.ListObjectsIter(ctx, s.bucket, o) {
		if object.Err != nil {
			return nil, s.known(prefix, object.Err)
		}
		if names = append(names, strings.TrimPrefix(object.Key, s.prefix)); len(names) == limit {
			break
		}
	}
	return names, nil
}

// known returns the errors of the archive for those of the API.
func (s *Store) known(name string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%s: %w", name, archive.ErrExists)
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", name, archive.ErrNotFound)
	default:
		return fmt.Errorf("%s in bucket %s: %w", name, s.bucket, err)
	}
}
