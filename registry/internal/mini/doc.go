// SPDX-License-Identifier: Apache-2.0

// Package mini is a small scanner engine: it knows the packages of dpkg, apk, package-lock.json and Go programs,
// and matches them with a JSON file of advisories. Tests, the demo and whoever writes an adapter use it.
//
//	image ─► layers ─► analysis of each (cached) ─► merged, top wins ─► SPDX, CycloneDX
//	SPDX ─► packages ─► advisories of their names ─► versions compared ─► findings, keys
//
// What it decides:
//
//   - An analysis of a layer depends on the layer alone, and is stored only where the blob had its digest and the archive its diffID.
//   - Nothing of an image is written to disk under a name of its own. Links and device files are names without content here.
//   - A layer that it cannot read (an encrypted one) is named as missing; the SBOM is partial.
package mini
