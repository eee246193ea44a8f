// SPDX-License-Identifier: Apache-2.0

// Package trust does TLS for the programs of forwarding: with material that is read anew, and with reasons that tell mistakes apart.
//
//	sink ──Client──► handshake of our own, with the present roots and key pair
//	                  ├ our refusal: UntrustedServer, ServerNameMismatch, ServerCertificateExpired
//	                  └ first read: the peer's alert: ClientCertificateMissing, ClientCertificateExpired, ClientCertificateRejected
//	door ──Server──► certificate, key and authority from files; a connection ends with the certificate that its client presented
//
// What it decides:
//
//   - Behind a proxy of HTTP or SOCKS5 (HTTPS_PROXY) the handshake is the same: the transport of net/http would do its own there, with the roots
//     of the system and without our certificate. Where addresses are forbidden the name is resolved here, and the proxy is asked for an address.
//   - Reasons come from types and from the numbers of alerts, never from texts.
//   - With TLS 1.3 the peer refuses after the handshake: the first read of each connection is watched, and the reason stays with the Client
//     until a handshake gets further.
//   - What cannot be read anew keeps what was read before, at a server; a sender says what is missing.
package trust
