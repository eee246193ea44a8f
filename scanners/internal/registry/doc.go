// SPDX-License-Identifier: Apache-2.0

// Package registry decides how images are stored and passed on: as an OCI layout in a folder, and in registries.
// In both, the images of a recipe are an index (or the image itself, if only one platform was built), and each
// image's SBOM is an OCI artifact whose subject is the image, which registries list as a referrer.
//
// A layout also holds each SBOM as a plain file, sbom/<os>-<arch>.cdx.json.
package registry
