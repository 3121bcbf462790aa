package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// checkToxiproxy creates a proxy in front of its own echo server and sends bytes through both.
func checkToxiproxy(ctx context.Context, url string) error {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer upstream.Close()
	go echoOnce(upstream)
	proxy, err := toxiproxy.NewClient(url).CreateProxy(token(), "127.0.0.1:0", upstream.Addr().String())
	if err != nil {
		return err
	}
	defer proxy.Delete()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxy.Listen)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	want := token()
	if _, err := io.WriteString(conn, want); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if err := same(want, got); err != nil {
		return err
	}
	return proxy.Delete()
}

func echoOnce(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	io.Copy(conn, conn)
}

// checkS3 creates its own bucket and removes it.
func checkS3(ctx context.Context, address string) error {
	endpoint, err := url.Parse(address)
	if err != nil {
		return err
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: credentials.NewStaticV4(
			os.Getenv("BELFRY_TEST_S3_ACCESS_KEY"), os.Getenv("BELFRY_TEST_S3_SECRET_KEY"), ""),
		Region: "us-east-1",
	})
	if err != nil {
		return err
	}
	want := token()
	bucket := strings.ReplaceAll(want, "_", "-")
	if err := client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}); err != nil {
		return err
	}
	defer client.RemoveBucket(ctx, bucket)
	if _, err := client.PutObject(ctx, bucket, "message", strings.NewReader(want), int64(len(want)),
		minio.PutObjectOptions{}); err != nil {
		return err
	}
	defer client.RemoveObject(ctx, bucket, "message", minio.RemoveObjectOptions{})
	object, err := client.GetObject(ctx, bucket, "message", minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer object.Close()
	got, err := io.ReadAll(object)
	if err != nil {
		return err
	}
	return same(want, got)
}
