package web

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// dist is the built UI in one file. make web builds it from the sources next to it.
//
//go:embed dist.zip
var dist []byte

const (
	index = "index.html"
	// themeCookie is written by the UI. It is not a secret.
	themeCookie = "belfry_theme"
	// placeholders in index.html
	nonceMark = "{{NONCE}}"
	htmlMark  = `<html lang="en">`
	titleMark = "<title>"
)

// policy allows the page its own files and the API, and style elements with the nonce. %s is the nonce.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// file is one file of the UI, ready to be sent.
type file struct {
	gzip, plain []byte
	mediaType   string
	etag        string
}

// load reads the files once. An error is a broken build.
var load = sync.OnceValue(func() map[string]file {
	files, err := read(dist)
	if err != nil {
		panic(err) //nolint:forbidigo // the archive is part of the program
	}
	return files
})

func read(archive []byte) (map[string]file, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("read the built UI: %w", err)
	}
	files := map[string]file{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("read %s of the built UI: %w", f.Name, err)
		}
		plain, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("read %s of the built UI: %w", f.Name, err)
		}
		packed, err := asGzip(f)
		if err != nil {
			return nil, fmt.Errorf("read %s of the built UI: %w", f.Name, err)
		}
		files[f.Name] = file{
			gzip: packed, plain: plain, mediaType: mediaType(f.Name),
			etag: `"` + strconv.FormatUint(uint64(f.CRC32), 16) + `"`,
		}
	}
	if _, ok := files[index]; !ok {
		return nil, fmt.Errorf("the built UI has no %s", index)
	}
	return files, nil
}

// mediaType does not ask the machine, whose table may differ.
func mediaType(name string) string {
	types := map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
	}
	if t, ok := types[path.Ext(name)]; ok {
		return t
	}
	return mime.TypeByExtension(path.Ext(name))
}

// asGzip puts the head and tail of gzip around the deflate stream of the archive, so that nothing is compressed again.
// It returns nil for a file that is stored without compression.
func asGzip(f *zip.File) ([]byte, error) {
	if f.Method != zip.Deflate {
		return nil, nil
	}
	raw, err := f.OpenRaw()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff})
	if _, err := io.Copy(&out, raw); err != nil {
		return nil, err
	}
	tail := binary.LittleEndian.AppendUint32(nil, f.CRC32)
	out.Write(binary.LittleEndian.AppendUint32(tail, uint32(f.UncompressedSize64))) // gzip has it modulo 2^32
	return out.Bytes(), nil
}

// Options of the UI.
type Options struct {
	// Provider is the name of the identity provider through which people can log in; empty: there is none. The login
	// page needs it before anyone may call the API, so it is part of the page.
	Provider string
}

// Handler serves the UI below /ui/. Every path that is not a file is a screen of the UI, which its router resolves.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/", o.serve)
	mux.Handle("GET /ui", http.RedirectHandler("/ui/", http.StatusPermanentRedirect))
	return mux
}

func (o Options) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/ui/")
	f, ok := load()[name]
	switch {
	case strings.HasPrefix(name, "assets/") && !ok:
		// Never the page: a browser that holds an old page must see that its script is gone.
		http.NotFound(w, r)
	case !ok || name == index:
		o.serveIndex(w, r)
	default:
		f.serve(w, r, strings.HasPrefix(name, "assets/"))
	}
}

// serve sends a file. The names of assets contain a hash of their content, so they never change.
func (f file) serve(w http.ResponseWriter, r *http.Request, immutable bool) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.etag)
	if immutable {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "public, max-age=3600")
	}
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if f.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // it fails only if the client has disconnected
}

// serveIndex sends the page with a nonce of its own, with the theme that the user chose, and with the name of the identity
// provider. It holds no other data.
func (o Options) serveIndex(w http.ResponseWriter, r *http.Request) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	nonce := hex.EncodeToString(random[:])
	page := bytes.Replace(load()[index].plain, []byte(nonceMark), []byte(nonce), 1)
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		page = bytes.Replace(page, []byte(htmlMark),
			[]byte(`<html lang="en" data-mantine-color-scheme="`+c.Value+`">`), 1)
	}
	if o.Provider != "" {
		page = bytes.Replace(page, []byte(titleMark),
			[]byte(`<meta name="belfry-provider" content="`+html.EscapeString(o.Provider)+`">`+titleMark), 1)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", fmt.Sprintf(policy, nonce))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	_, _ = w.Write(page) //nolint:gosec // the cookie is one of two strings; an error means that the client has disconnected
}
