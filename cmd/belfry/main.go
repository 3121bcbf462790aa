// Command belfry is the server and the command line in one.
package main

import (
	"os"
	"runtime/debug"
	_ "time/tzdata" // for systems without time zones

	"github.com/belfry-dev/belfry/internal/cli"
)

// release is the version of a package or an image, which dev/static sets.
var release string

func main() { os.Exit(cli.Main(version())) }

// version returns the version of the release, or that of the module that the Go toolchain wrote into the binary.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
