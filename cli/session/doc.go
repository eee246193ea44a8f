// SPDX-License-Identifier: Apache-2.0

// Package session has what every command needs: the streams and whether they are terminals, kubectl's
// flags, the clients made from them, the clock, and how a command ends. Commands take a *Session and no
// other input, so that a test can run them with streams and a cluster of its own.
//
// Its streams are guarded, so that no command can forget it: text of the cluster and of findings cannot control the
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
// Explain turns errors of the API server and of the kubeconfig into messages for users, each with a
// remedy.
package session
