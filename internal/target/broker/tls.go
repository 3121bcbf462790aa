package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

const maxPEM = 32 << 10 // bytes

// TLS contains the settings of an encrypted connection. The server's certificate is always verified.
type TLS struct {
	CA          string      // PEM; empty: the system's
	ServerName  string      // empty: the host of the server's address
	Certificate string      // of the client, PEM
	Key         secret.Text // of Certificate
}

func (r *Reader) tls(c *Config) {
	raw := r.Fields["tls"]
	var on bool
	if raw == nil || json.Unmarshal(raw, &on) == nil {
		if on {
			c.TLS = &TLS{}
		}
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		r.Add("tls", "it is neither true or false nor an object", `write true, or {"ca": "-----BEGIN CERTIFICATE…"}`)
		return
	}
	inner := &Reader{r.Inner("tls", fields), r.Form}
	c.TLS = &TLS{
		CA: inner.Text("ca", maxPEM), ServerName: inner.Text("server_name", maxName),
		Certificate: inner.Text("certificate", maxPEM), Key: inner.Stored("key"),
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains([]string{"ca", "server_name", "certificate", "key"}, name) {
			inner.Add(settings.ShowName(name), "there is no such setting", "use ca, server_name, certificate and key")
		}
	}
	for _, p := range []struct{ field, text string }{{"ca", c.TLS.CA}, {"certificate", c.TLS.Certificate}} {
		if p.text != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(p.text)) {
			inner.Add(p.field, "it contains no certificate", "write it as PEM")
		}
	}
	if (c.TLS.Certificate == "") != (c.TLS.Key.Secret == "") {
		inner.Add("key", "certificate and key go together", "give both, or neither")
	}
	r.Join(inner.Reader)
}

// tlsConfig returns the TLS config of one connection, and the text of the client's key.
func (c *Config) tlsConfig(
	ctx context.Context, o *Options, namespace uuid.UUID,
) (out *tls.Config, key string, err error) {
	t := c.TLS
	out = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		out.RootCAs = x509.NewCertPool()
		out.RootCAs.AppendCertsFromPEM([]byte(t.CA))
	}
	if t.Certificate == "" {
		return out, "", nil
	}
	if key, err = c.ReadSecret(ctx, o, namespace, t.Key); err != nil {
		return nil, "", err
	}
	pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(key))
	if err != nil {
		// The error's text is left out: it may quote the key.
		return nil, "", &FinalError{errors.New("certificate and key do not fit each other; " +
			"fix tls.certificate, or the secret that tls.key names")}
	}
	out.Certificates = []tls.Certificate{pair}
	return out, key, nil
}
