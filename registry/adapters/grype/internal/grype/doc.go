// SPDX-License-Identifier: Apache-2.0

// Package grype is the adapter around the libraries of Syft and Grype.
//
//	image ─► layers, checked and within the bounds ─► archives in workdir ─► Syft's catalogers ─► SPDX, CycloneDX
//	SPDX, CycloneDX ─► Grype's decoder ─► its matchers over one open database ─► findings of the protocol, keys
//
// What it decides:
//
//   - Layers are read here and not by Syft: its reader knows no bounds and asks registries itself. An archive is written anew with the
//     entries that may be looked at, and Syft sees an image of these archives.
//   - Syft looks at the whole image, and not at each layer: there is no cache of layers.
//   - What Syft says of single files is off: a package tells the file that it was found by.
//   - Documents are functions of the image: dates and identities that Syft draws are replaced, and lists are in order.
//   - A database is opened once for all who read it, and several may be open.
//   - EPSS is not told. Its numbers change every day for nearly every vulnerability, so that every report would be made anew every day.
//   - Whether a distribution gives no more fixes is told by the database, at the date when that was built: equal requests have equal
//     answers.
package grype
