// SPDX-License-Identifier: Apache-2.0

// Package nmap is the parser of nmap's XML output, result type nmap-xml.
//
// Findings come in three sections: the open ports of all hosts, then the hosts, then what certain scripts found
// (ftp-anon, banner, smb-protocols). The input has them host by host:
//
//	pass 1   host ──► ports out          hosts and script findings are held
//	then     held hosts out, held script findings out
//
// What it decides:
//
//   - One host is in memory at a time. What is held for later is bounded; beyond the bound it is dropped, and the input
//     is read once more for that section.
//   - Oddities of the format's first parser that clients see are kept: script findings name the host's first port, and
//     only the scripts of one port (the last with any) or of the host are looked at.
//   - One is not: a host with an empty <hostnames/> has no hostname, instead of making the whole result unreadable.
package nmap
