package nats

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// What a server may send. The server is not trusted: an editor of any namespace chooses it.
const (
	maxLine    = 4 << 10  // bytes, as servers limit them
	maxInfo    = 64 << 10 // bytes; it has the addresses of all servers of a cluster
	maxPayload = 64 << 10 // bytes of a response, with its headers
)

// errProtocol says that a server sent what the protocol does not allow, or more than Belfry reads.
const errProtocol = broker.OwnError("it sent what no NATS server sends to a publisher")

// info is the part of a server's INFO that matters to a publisher.
type info struct {
	MaxPayload   int64  `json:"max_payload"`
	Headers      bool   `json:"headers"`
	Nonce        string `json:"nonce"`
	TLSRequired  bool   `json:"tls_required"`
	TLSAvailable bool   `json:"tls_available"`
	LameDuck     bool   `json:"ldm"`
}

// connect is what a client says about itself.
type connect struct {
	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	JWT          string `json:"jwt,omitempty"`
	Signature    string `json:"sig,omitempty"`
	User         string `json:"user,omitempty"`
	Password     string `json:"pass,omitempty"`
	Token        string `json:"auth_token,omitempty"`
	TLS          bool   `json:"tls_required"`
	Name         string `json:"name"`
	Lang         string `json:"lang"`
	Version      string `json:"version"`
	Protocol     int    `json:"protocol"`
	Echo         bool   `json:"echo"`
	Headers      bool   `json:"headers"`
	NoResponders bool   `json:"no_responders"`
}

// received is a message from the server.
type received struct {
	subject string
	status  string // the code in the first line of the headers, if any
	payload []byte
}

// lineReader reads the protocol. It never reserves memory for more than maxInfo or maxPayload.
type lineReader struct{ *bufio.Reader }

func newLineReader(r io.Reader) *lineReader { return &lineReader{bufio.NewReaderSize(r, maxLine)} }

// line reads one line and returns its first word and the rest. Both are valid until the next call.
func (r *lineReader) line() (verb string, args []byte, err error) {
	var whole []byte
	for {
		part, err := r.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case err == nil:
			whole = bytes.TrimSuffix(bytes.TrimSuffix(whole, []byte("\n")), []byte("\r"))
			verb, args, _ := bytes.Cut(whole, []byte(" "))
			return string(verb), args, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", nil, err
		case !bytes.HasPrefix(whole, []byte("INFO ")), len(whole) >= maxInfo:
			return "", nil, errProtocol
		}
	}
}

// message reads the payload after a line MSG or HMSG.
func (r *lineReader) message(verb string, args []byte) (m received, err error) {
	words := strings.Fields(string(args))
	sizes := 1
	if verb == "HMSG" {
		sizes = 2
	}
	if len(words) != sizes+2 && len(words) != sizes+3 || words[1] != subscription { // one more is a reply subject
		return m, errProtocol
	}
	var size [2]int // of the headers, and of all
	for i, word := range words[len(words)-sizes:] {
		if size[2-sizes+i], err = parseSize(word); err != nil {
			return m, err
		}
	}
	if size[0] > size[1] {
		return m, errProtocol
	}
	data := make([]byte, size[1]+2)
	if _, err := io.ReadFull(r, data); err != nil {
		return m, err
	}
	payload, ok := bytes.CutSuffix(data, []byte("\r\n"))
	if !ok {
		return m, errProtocol
	}
	m.subject, m.payload = words[0], payload[size[0]:]
	if status, ok := bytes.CutPrefix(payload[:size[0]], []byte("NATS/1.0 ")); ok && len(status) >= 3 {
		m.status = string(status[:3])
	}
	return m, nil
}

// parseSize reads the size of a payload.
func parseSize(word string) (int, error) {
	n, err := strconv.ParseUint(word, 10, 31)
	if err != nil || n > maxPayload {
		return 0, errProtocol
	}
	return int(n), nil
}

func parseInfo(args []byte) (i info, err error) {
	if json.Unmarshal(args, &i) != nil {
		return i, errProtocol
	}
	return i, nil
}

// message is what is published. It is formatted except for the subject of the response.
type message struct {
	subject string
	headers []byte
	payload string
}

func (m *message) size() int { return len(m.headers) + len(m.payload) }

// newLines must not be in a header, because it would end there.
var newLines = strings.NewReplacer("\r", " ", "\n", " ")

func appendHeader(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, newLines.Replace(textproto.TrimString(value))...), "\r\n"...)
}

// appendTo formats the message as HPUB.
func (m *message) appendTo(b []byte, reply string) []byte {
	b = append(append(b, "HPUB "...), m.subject...)
	b = append(append(append(b, ' '), reply...), ' ')
	b = append(strconv.AppendInt(b, int64(len(m.headers)), 10), ' ')
	b = append(strconv.AppendInt(b, int64(m.size()), 10), "\r\n"...)
	return append(append(append(b, m.headers...), m.payload...), "\r\n"...)
}
