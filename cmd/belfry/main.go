// Command belfry is the server and the command line in one.
package main

import (
	"os"
	"runtime/debug"
	_ "time/tzdata" // for systems without time zones

	"github.com/belfry-dev/belfry/internal/cli"
)

func main() { os.Exit(cli.Main(version())) }

// version returns the version of the module that the Go toolchain wrote into the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
