package store

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// CheckLink returns an error if a connection by this URL could lead over a network without verified TLS. It reads the
// URL, the standard variables of PostgreSQL and the service file as a connection does, and opens none.
func CheckLink(url string) error {
	all, err := tries(url)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(f *pgconn.FallbackConfig) bool { return !local(f) && !verified(f.TLSConfig) })
	if i < 0 {
		return nil
	}
	return fmt.Errorf(
		"the database host %s is reached over a network, and the connection would not verify its certificate: "+
			"others could read passwords and data on their way, or pose as the database; "+
			"add sslmode=verify-full to the database URL, and sslrootcert=FILE if the certificate is from an authority "+
			"of your own; or, if something else protects the connection, set insecure_database: true",
		all[i].Host,
	)
}

// tries returns the connections that pgx tries, one after the other. With sslmode=prefer, the default, each host follows
// again without TLS.
func tries(url string) ([]*pgconn.FallbackConfig, error) {
	config, err := Config(url)
	if err != nil {
		return nil, err
	}
	return append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...), nil
}

// Hosts returns the hosts of a URL, each with its port. Sockets are left out.
func Hosts(url string) (out []string, err error) {
	all, err := tries(url)
	for _, f := range all {
		network, address := pgconn.NetworkAddress(f.Host, f.Port)
		if network != "unix" && !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out, err
}

// local reports whether a host is on this machine: a socket, or a loopback address.
func local(f *pgconn.FallbackConfig) bool {
	if network, _ := pgconn.NetworkAddress(f.Host, f.Port); network == "unix" || f.Host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(f.Host)
	return err == nil && ip.Unmap().IsLoopback()
}

// verified reports whether the certificate of the server is verified: with its name (verify-full), or, with an authority
// that the URL names, without (verify-ca). Without such an authority, verify-ca accepts any certificate of any name that
// a public authority has signed.
func verified(c *tls.Config) bool {
	return c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil && c.RootCAs != nil)
}
