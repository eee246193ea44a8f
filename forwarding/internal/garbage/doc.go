// SPDX-License-Identifier: Apache-2.0

// Package garbage has garbage collected each time that a number of bytes has come together, however much is in use. Go counts in parts of what is in
// use: a program that holds little collects all the time under load, and one that holds much has room for as much again.
package garbage
