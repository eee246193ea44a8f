// SPDX-License-Identifier: Apache-2.0

// Package session has what every command of the command line needs: the streams and
// whether they are terminals, kubectl's flags, the clients that follow from them, the
// clock, and how a command ends. Commands take a *Session and nothing else from the
// outside, so that a test can run them with streams and a cluster of its own.
//
// Its streams are guarded, so that no command can forget it: text of the cluster and of findings means nothing to a
// terminal.
//
// How a command ends:
//
//	nil                 0  done
//	any other error     1  errored, or used wrongly
//	Exit{Threshold, …}  2  findings reached the severity of --fail-on
//	Exit{Timeout, …}    3  --timeout has passed
//	Exit{Unreached, …}  4  nothing was reached, and --fail-on is given without --allow-unreached
//	Exit{Interrupted,…} 130  Ctrl-C
//
// Explain turns what the API server and the kubeconfig say into the words of a user,
// each with a remedy.
package session
