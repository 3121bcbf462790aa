// Command openapi prints the description of the API, as the server's types give it.
package main

import (
	"fmt"
	"os"

	"github.com/belfry-dev/belfry/internal/server"
)

// version of the API. That of a binary would change the file with each release.
const version = "v1"

func main() {
	text, err := server.New(server.Options{Version: version}).OpenAPI()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}
