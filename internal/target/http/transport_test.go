package http

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestManyCertificates: a namespace with many certificates takes the connections neither of namespaces with their own
// guard, nor of certificates that are in use.
func TestManyCertificates(t *testing.T) {
	t.Parallel()
	var own ownTransports
	t.Cleanup(own.close)
	get := func(namespace uuid.UUID, pem string) any {
		transport, err := own.get(Options{}, namespace, pem)
		require.NoError(t, err)
		return transport
	}
	guarded, other, many, cert := uuid.New(), uuid.New(), uuid.New(), certificate(t)
	first, used, unused := get(guarded, ""), get(other, cert), get(guarded, cert)
	for n := range 2 * maxCertificates {
		get(many, cert+string(rune('a'+n%26))+string(rune('a'+n/26)))
		require.Same(t, used, get(other, cert))
	}
	require.Same(t, first, get(guarded, ""))
	require.Len(t, own.certificates, maxCertificates)
	require.NotSame(t, unused, get(guarded, cert), "it was used least recently")
}

// certificate creates a self-signed certificate with its key, as PEM.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}
