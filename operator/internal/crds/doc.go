// SPDX-License-Identifier: Apache-2.0

// Package crds asks a real API server, in its tests only, what it makes of manifests:
// those that work with secureCodeBox, those our charts render and those in our
// documentation must be accepted and stored as they are meant; those that can never
// work must be refused with the name of the field.
//
// testdata/valid has pairs: a manifest, and in NAME.stored.yaml what becomes of its
// spec. testdata/invalid has manifests with the words that the refusal must hold, each
// in a comment "# want:".
package crds
