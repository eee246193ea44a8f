// SPDX-License-Identifier: Apache-2.0

// Package tally counts things by name in bounded memory.
//
// What it decides: there are at most a thousand names of at most 200 bytes. What comes up under further names is
// counted together, as "(other)", so that the sum stays right whatever a document holds.
package tally
