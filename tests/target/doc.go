// SPDX-License-Identifier: Apache-2.0

// Package target is something harmless to scan, on free loopback ports:
//
//	Start       an HTTP server and a service that greets as an SSH server does
//	StartWeb    a web site of a few pages, plain or with an expired certificate that
//	            it has signed itself
//	StartFTP    an FTP login that takes one weak password
//	StartSSHD   OpenSSH's own server, as an unprivileged process without an account
//	            to log in to
package target
