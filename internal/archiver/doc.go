// Package archiver exports closed days of history to an archive, each exactly once, and verifies them before they may
// be dropped.
//
//	close ─► take ─► read ─► sort ─► write parts ─► manifest ─► verify ─► sweep ─► finish
//	          │ owner, epoch + 1                                          fenced by the epoch ▲
//	          └─ another node continues here when this one dies: parts that are written are found, not written again
//
// A round works on one day. Everything before finish can be repeated: rows of a closed day do not change, the same rows
// give the same bytes, and no object is overwritten. If an object exists with another content, or rows came after the
// day was closed, the day is exported again as its next generation. See docs/decisions/0049-history-is-archived-by-day.md.
package archiver
