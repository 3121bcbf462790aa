// Command house reports the sizes and shapes of the repository: packages, store types, functions, lines, SQL,
// background loops, the schema and duplicated lines. It marks every goal that is missed.
//
//	go run ./dev/house                 # this checkout
//	go run ./dev/house -dir ../older   # another checkout, to compare
//	go run ./dev/house -check          # exit with status 1 if a goal is missed
//	go run ./dev/house -json           # the same report for programs
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	dir := flag.String("dir", ".", "root of the checkout to report on")
	asJSON := flag.Bool("json", false, "print the report as JSON")
	check := flag.Bool("check", false, "exit with status 1 if a goal is missed")
	flag.Parse()

	report, err := inspect(*dir)
	if err == nil {
		err = write(os.Stdout, report, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	}
	if *check && len(report.Missed) > 0 {
		os.Exit(1)
	}
}

func write(w io.Writer, r Report, asJSON bool) error {
	if !asJSON {
		return text(w, r)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
