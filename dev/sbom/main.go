// Command sbom prints the software bill of materials of a release, as CycloneDX in JSON.
//
//	npm sbom --sbom-format cyclonedx --package-lock-only | sbom VERSION package.json PROGRAM…
//
// Go modules come from the build information in the programs, so the list is that of what was linked. The packages of the
// web UI come from npm, which also lists those that only build it: package.json says where to start. npm's own option for
// that (--omit dev) leaves out packages that both need. SOURCE_DATE_EPOCH is its date: the same input gives the same bytes.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, npm io.Reader, out io.Writer) error {
	if len(args) < 3 {
		return fmt.Errorf("usage: sbom VERSION package.json PROGRAM… <NPM")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: the date of the list, in seconds since 1970: %w", err)
	}
	list, err := goModules(args[0], args[2:])
	if err != nil {
		return err
	}
	if err := addPackages(list, args[1], npm); err != nil {
		return err
	}
	list.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	if err := number(list); err != nil {
		return err
	}
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(list)
}

// goModules returns the list of the modules in programs. Programs of other platforms may have others.
func goModules(version string, programs []string) (*cdx.BOM, error) {
	root := module("github.com/belfry-dev/belfry", "v"+version)
	root.Type, root.Name = cdx.ComponentTypeApplication, "belfry"
	root.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	components := map[string]cdx.Component{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		std := module("std", strings.TrimPrefix(info.GoVersion, "go"))
		components[std.BOMRef] = std
		for _, dep := range info.Deps {
			c, err := dependency(version, dep)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", program, err)
			}
			components[c.BOMRef] = c
		}
	}
	list := cdx.NewBOM()
	list.Metadata = &cdx.Metadata{Component: &root}
	sorted, uses := make([]cdx.Component, 0, len(components)), make([]string, 0, len(components))
	for _, c := range components {
		sorted, uses = append(sorted, c), append(uses, c.BOMRef)
	}
	slices.SortFunc(sorted, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	slices.Sort(uses)
	list.Components = &sorted
	list.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &uses}}
	return list, nil
}

func dependency(version string, dep *debug.Module) (cdx.Component, error) {
	switch {
	case dep.Replace == nil:
	case dep.Replace.Version == "" || dep.Replace.Version == "(devel)": // a directory of this repository
		return module(dep.Path, "v"+version), nil
	default:
		dep = dep.Replace
	}
	c := module(dep.Path, dep.Version)
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dep.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return c, fmt.Errorf("the checksum of %s is %q", dep.Path, dep.Sum)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return c, nil
}

func module(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, PackageURL: purl, Name: path, Version: version}
}

// addPackages adds what npm lists and the web UI uses, with the UI itself as a part of the program.
func addPackages(list *cdx.BOM, manifest string, npm io.Reader) error {
	var web cdx.BOM
	if err := cdx.NewBOMDecoder(npm, cdx.BOMFileFormatJSON).Decode(&web); err != nil {
		return fmt.Errorf("the list of npm: %w", err)
	}
	if web.Metadata == nil || web.Metadata.Component == nil || web.Components == nil || web.Dependencies == nil {
		return fmt.Errorf("the list of npm is empty")
	}
	direct, err := directDependencies(manifest)
	if err != nil {
		return err
	}
	ui := *web.Metadata.Component
	ui.Type, ui.Name = cdx.ComponentTypeLibrary, "belfry-ui"
	graph := map[string][]string{}
	for _, d := range *web.Dependencies {
		if d.Dependencies != nil {
			graph[d.Ref] = *d.Dependencies
		}
	}
	graph[ui.BOMRef] = direct
	used := reachable(graph, ui.BOMRef)
	found := 0
	for _, c := range append([]cdx.Component{ui}, *web.Components...) {
		if !used[c.BOMRef] {
			continue
		}
		found++
		c.Properties, c.ExternalReferences = nil, nil // they name directories and mirrors of the build
		*list.Components = append(*list.Components, c)
		uses := graph[c.BOMRef]
		*list.Dependencies = append(*list.Dependencies, cdx.Dependency{Ref: c.BOMRef, Dependencies: &uses})
	}
	if found != len(used) {
		return fmt.Errorf("npm lists %d of %d packages that the web UI uses", found, len(used))
	}
	root := (*list.Dependencies)[0].Dependencies
	*root = append(*root, ui.BOMRef)
	return nil
}

// directDependencies returns those of a package.json, which have exact versions there.
func directDependencies(manifest string) (direct []string, err error) {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return nil, err
	}
	var file struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	for name, version := range file.Dependencies {
		direct = append(direct, name+"@"+version)
	}
	slices.Sort(direct)
	return direct, nil
}

func reachable(graph map[string][]string, start string) map[string]bool {
	seen, next := map[string]bool{}, []string{start}
	for len(next) > 0 {
		ref := next[0]
		next = next[1:]
		if !seen[ref] {
			seen[ref] = true
			next = append(next, graph[ref]...)
		}
	}
	return seen
}

// number gives the list a serial number that depends on its content only.
func number(list *cdx.BOM) error {
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8: a UUID of one's own making
	id := hex.EncodeToString(sum[:16])
	list.SerialNumber = "urn:uuid:" + strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	return nil
}
