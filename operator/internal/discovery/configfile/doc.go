// SPDX-License-Identifier: Apache-2.0

// Package configfile reads a YAML file strictly and knows the line of every field.
//
// Libraries that decode YAML by way of JSON lose the lines, and those that keep them do
// not know Kubernetes' types. This one reads the file into nodes, which have lines,
// decodes them as Kubernetes does, and looks up the line of whatever is wrong: of what
// decoding refuses (unknown and repeated fields, wrong types), and of what validation
// says by the path of a field.
package configfile
