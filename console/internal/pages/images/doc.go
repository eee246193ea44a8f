// SPDX-License-Identifier: Apache-2.0

// Package images has the pages of registry scanning: registries with their progress and jobs, their repositories and images, one
// image with its vulnerabilities and packages, what differs between two images, and who has a vulnerability.
//
//	registries ─► repositories ─► images by tag ─► one image ─► vulnerabilities, packages, difference
//
// Registries and their jobs are read from the Kubernetes API; repositories, images and what is known of them from the reports API.
package images
