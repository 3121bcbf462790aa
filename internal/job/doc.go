// Package job is the vocabulary of Belfry and every decision it makes.
//
// A [Job] is a saved [Definition]: schedule, target, policies and payload. Each
// occurrence of its schedule is a [Run], which lives like this:
//
//	           plan            claim             complete
//	occurrence ────► pending ────────► running ───────────► history
//	     │              ▲    Admit        │        Decide      ▲
//	     │ skip         └─────────────────┘                    │
//	     │                 retry, run_at later                 │
//	     └─────────────────────────────────────────────────────┘
//	                 a skip with its Reason
//
// The three decisions are pure functions: [Plan] says what becomes of the
// occurrences of a schedule, [Admit] whether a run that is due may start now,
// and [Decide] what an attempt's outcome means. They read no clock and do no
// I/O: the instant is an argument, taken once per transaction from the
// database. internal/postgres carries their results out and makes none itself.
package job
