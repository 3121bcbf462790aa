package config

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"unicode"
)

// Archive says where days of history are archived. The settings are per node, and should be the same on all nodes. One
// node at a time exports.
type Archive struct {
	URL           string `key:"url" form:"archive"`
	Insecure      bool   `key:"insecure" default:"false" oneof:"true,false"`
	Region        string `key:"region" default:"us-east-1" form:"line"`
	AccessKey     string `key:"access_key" form:"hidden" secret:"true"`
	AccessKeyFile string `key:"access_key_file" form:"path"`
	SecretKey     string `key:"secret_key" form:"hidden" secret:"true"`
	SecretKeyFile string `key:"secret_key_file" form:"path"`
	Required      bool   `key:"required" default:"false" oneof:"true,false"`
	Rate          int    `key:"rate" default:"20000" min:"100" max:"10000000"`
	Directory     string `key:"directory" form:"path"`
	Disk          int    `key:"disk_mb" default:"20480" min:"16" max:"10000000"`
}

// Local returns the directory of an archive that is one, or an empty string.
func (a *Archive) Local() string {
	directory, _ := strings.CutPrefix(a.URL, "file://")
	if directory == a.URL {
		return ""
	}
	return directory
}

// Bucket returns the parts of the URL of an archive that is in a bucket.
func (a *Archive) Bucket() (server, bucket, prefix string) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return "", "", "" // the form has been checked
	}
	bucket, prefix, _ = strings.Cut(strings.Trim(u.Path, "/"), "/")
	return u.Scheme + "://" + u.Host, bucket, prefix
}

// check rejects an archive that cannot work.
func (a *Archive) check() error {
	switch {
	case a.URL == "" && a.Required:
		return errors.New("archive.required needs archive.url: without an archive no day of history would be dropped")
	case a.URL != "" && a.Local() == "" && (a.AccessKey == "" || a.SecretKey == ""):
		return errors.New("archive.url is a bucket: set also archive.access_key_file and archive.secret_key_file")
	case !a.Insecure && inClear(a.URL):
		return errors.New("archive.url leads to another machine without TLS: others could read history on its way, or pose " +
			"as the bucket and store nothing; use https, or, if something else protects the connection, " +
			"set archive.insecure: true")
	}
	return nil
}

// archiveOK accepts a bucket of an S3 API, or a directory.
func archiveOK(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(text) > 1000 ||
		strings.ContainsFunc(text, unicode.IsControl) {
		return false
	}
	if u.Scheme == "file" {
		return u.Host == "" && path.IsAbs(u.Path) && path.Clean(u.Path) != "/" && text == "file://"+u.Path
	}
	return (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && strings.Trim(u.Path, "/") != ""
}
