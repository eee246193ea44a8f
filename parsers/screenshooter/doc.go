// SPDX-License-Identifier: Apache-2.0

// Package screenshooter is the parser of screenshots, result type screenshot-png: one finding that links to the image.
//
// What it decides: an empty image is not a screenshot. Whether it is one is not looked at; it is binary and may be large.
package screenshooter
