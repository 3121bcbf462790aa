// Package hostile contains servers that try to hurt the node that delivers to them. An editor of one namespace
// can point a target at a server of their own, and the node belongs to all namespaces.
//
// There is a list of attacks for each kind of target. The test of this package runs each of them, with and
// without TLS, against a process of its own that delivers a few times, and measures that process.
package hostile

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Attack is one way to hurt a node.
type Attack struct {
	Kind string // of the target
	Name string
	// Serve handles one connection. It is closed when Serve returns.
	Serve func(c *Conn)
	// SelfSecuring says that Serve begins TLS itself.
	SelfSecuring bool
	// Only limits the attack to connections with TLS, or to those without.
	Only Transport
	// Worst marks the attacks of the short form.
	Worst bool
}

// Transport is how an attack can be made.
type Transport int

// Transports.
const (
	Both Transport = iota
	TLSOnly
)

// All returns the attacks.
func All() []Attack {
	return httpAttacks()
}

// Conn is a connection from a target.
type Conn struct {
	net.Conn
	in  *bufio.Reader
	tls *tls.Config // nil: none
}

// say sends text and reports whether the target still listens.
func (c *Conn) say(text string) bool {
	_, err := io.WriteString(c.Conn, text)
	return err == nil
}

// flood sends text until the target closes the connection.
func (c *Conn) flood(text string) {
	for c.say(text) {
		continue
	}
}

// trickle sends text one byte at a time.
func (c *Conn) trickle(text string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range len(text) {
		if !c.say(text[i : i+1]) {
			return
		}
		<-tick.C
	}
}

// drain reads until the target closes the connection.
func (c *Conn) drain() { _, _ = io.Copy(io.Discard, c.in) }

// secure begins TLS.
func (c *Conn) secure() {
	if c.tls != nil {
		c.Conn = tls.Server(c.Conn, c.tls)
		c.in = bufio.NewReader(c.Conn)
	}
}

// Server runs one attack against all that connect.
type Server struct {
	listener net.Listener
	attack   *Attack
	tls      *tls.Config

	// Sent is how many bytes were sent.
	Sent atomic.Int64

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// counted counts what is sent.
type counted struct {
	net.Conn
	sent *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// Start starts a server on loopback. certificate is nil for a server without TLS.
func Start(a *Attack, certificate *tls.Certificate) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed by Close
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, attack: a, conns: map[net.Conn]bool{}}
	if certificate != nil {
		s.tls = &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate},
			NextProtos: []string{"h2", "http/1.1"},
		}
	}
	go s.accept()
	return s, nil
}

// Address returns where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends the server and all its connections.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	_ = s.listener.Close()
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.conns[conn] = true; s.closed {
			_ = conn.Close()
		}
		s.mu.Unlock()
		go s.serve(conn)
	}
}

func (s *Server) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(64 << 10) // otherwise the kernel takes some MB
	}
	c := &Conn{Conn: &counted{conn, &s.Sent}, in: bufio.NewReader(conn), tls: s.tls}
	if !s.attack.SelfSecuring {
		c.secure()
	}
	s.attack.Serve(c)
}

// NewCertificate returns a certificate for loopback and its PEM.
func NewCertificate() (*tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", err
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, text, nil
}
