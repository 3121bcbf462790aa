// Package body checks and reads the JSON of request bodies.
//
// Decoded JSON can need far more memory than its text, and costs more the deeper it is nested. Every function of this
// package that decodes calls Check first, which bounds both in one pass over the text and without allocation. Other
// packages of the server decode what clients send through this package only; a rule of the linter says so.
package body
