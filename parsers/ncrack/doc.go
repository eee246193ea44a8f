// SPDX-License-Identifier: Apache-2.0

// Package ncrack is the parser of Ncrack's XML output, result type ncrack-xml: one finding per pair of credentials that
// was discovered.
//
// What it decides:
//
//   - If the environment variable ENCRYPTION_KEY_LOCATION names a file, passwords are encrypted for the age recipient
//     in it, each on its own and ASCII-armored, and leave the pod in no other form: neither the id nor the fingerprint
//     of a finding is derived from a password that is encrypted. A file that cannot be read, or holds no single
//     recipient, is an error before anything is read.
//   - Encryption is different each time, so encrypted passwords are [sdk.Sealed].
//   - One service is in memory at a time. Its address and its port may stand behind its credentials.
//   - A service without address or port makes the result unreadable, and so does a result without a single service.
package ncrack
