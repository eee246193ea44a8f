// SPDX-License-Identifier: Apache-2.0

// Package recording keeps what was written to a terminal, and draws it: an asciicast, as asciinema plays it, a picture
// that moves, and one that does not, as SVG without scripts and fonts of others. It is about bytes and times that others have taken.
package recording
