// SPDX-License-Identifier: Apache-2.0

// Package ecma does to texts and numbers what ECMAScript does, where the findings of a format depend on it.
//
// It decides nothing about any format. What JSON looks like on the wire is in package finding.
package ecma
