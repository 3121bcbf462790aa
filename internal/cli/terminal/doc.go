// Package terminal prints for people: tables and pages that fit the terminal, colours, progress, and
// text that cannot take control of the terminal. For programs it prints JSON or YAML.
package terminal
