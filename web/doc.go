// Package web is the web UI, built and embedded.
//
// Its sources are TypeScript in src. make web builds them into dist.zip, which is committed, so that go build and go
// install give the whole product with Go alone. make verify/web builds it again and compares each file.
package web
