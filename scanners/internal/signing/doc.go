// SPDX-License-Identifier: Apache-2.0

// Package signing signs files, and images and charts in registries, in the forms that cosign reads: a signature of a file is the base64 of
// an ECDSA signature over the SHA-256 of the file, in DER; what is signed of an image is a "simple signing" document that names the
// image's digest. openssl verifies both as well. The same key and the same content give the same signature (RFC 6979).
//
// Sources: the specification of signatures in the repository of sigstore/cosign (specs/SIGNATURE_SPEC.md), and containers/image for the
// document (docs/containers-signature.5.md).
package signing
