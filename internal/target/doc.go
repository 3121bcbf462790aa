// Package target is where runs go. Each kind of target is a package below this
// one, with one method that matters: Deliver makes one try and says what it came
// to. [New] is the list of all kinds; there is no registry that packages enter
// themselves into, so that reading one function tells what a node can do.
//
// A target decides one thing: may this be tried again? When, how often and
// whether at all is decided by job.Decide, from the outcome.
//
// What every target must do is written down as tests in targettest.
package target
