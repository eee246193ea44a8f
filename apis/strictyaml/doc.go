// SPDX-License-Identifier: Apache-2.0

// Package strictyaml reads YAML that people write: strictly, as Kubernetes does, and with the line of every field.
//
//	text ──Parse──► File ──Decode──► struct
//	                  └── Line(path), Check(what a validation says)
//
// What it decides:
//
//   - A field that the struct does not have, a field that comes twice, a value of another type and a second document are
//     errors; names are case-sensitive. Every error has its line, and the path of its field where there is one.
//   - What looks like a date stays a text. Aliases and merge keys are resolved, within bounds.
//
// Libraries that decode YAML by way of JSON lose the lines, and those that keep the lines take a number for a text and 1.5
// for 1: see docs/decisions/2026-11-22-strict-yaml.md. This package reads the text into nodes, which have lines, decodes them
// as Kubernetes does, and looks up the line of what is wrong.
package strictyaml
