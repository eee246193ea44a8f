// SPDX-License-Identifier: Apache-2.0

// Package trivy is the adapter around Trivy's libraries.
//
//	image ─► layers ─► Trivy's analysers on each (cached) ─► Trivy's applier ─► SPDX, CycloneDX
//	SPDX ─► Trivy's decoder ─► its detectors over one open database ─► findings of the protocol, keys
//
// What it decides:
//
//   - Layers are walked here and not by Trivy: its walker knows no bounds. What analysers, handlers and applier make of the files is what
//     the command "trivy image" shows, which looks at no lock files.
//   - Trivy's command layer and its image and cache packages are not linked: they keep state that two requests would share, and bring clients of
//     container runtimes and registries along. Its database writer and its Java database are not linked either; jars are named as missing.
//   - The database is a global of Trivy's: one is open at a time, and many requests read it.
//   - Documents are functions of the image: what Trivy draws at random is drawn from the image's digest, and lists are in order.
//   - Keys are too many rather than too few: a package of a distribution has its own name and its source's, under each kind of bucket that a
//     detector of its distribution may ask.
package trivy
